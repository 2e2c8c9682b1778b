"""γ from Kronecker factors beside the exact one, at weights trained with learnt precisions.

    python benchmarks/overlap.py [docs/data/overlap.json]
    python benchmarks/overlap.py docs/data/overlap.json --table

Regression on synthetic rows by networks of 25 to 2,851 weights, and the convolutional network of digits.py on
200 rows. For each the exact γ = tr((JᵀJ + A)⁻¹ JᵀJ) of all rows, beside what `curvature/spectra.py` takes
(kron) and the sum over tensors as if each were alone (separate); and log α of the tensor with most γ at the
fixed point α = γ / ‖w‖² of each, at the same weights.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import digits
import torch
from torch import Tensor, nn

from online_laplace import OnlineLaplace
from online_laplace.core import Categorical
from online_laplace.curvature.spectra import Spectra, SpectralEvidence
from online_laplace.modules import Cadence
from online_laplace.modules.jacobian import linearise, tangent_model

# Hidden units, rows, noise, activation.
PROBLEMS = (
    ((4,), 200, 0.2, nn.Tanh), ((4,), 2000, 0.1, nn.Tanh), ((20,), 2000, 0.1, nn.Tanh),
    ((20, 20), 500, 0.2, nn.Tanh), ((50, 50), 1000, 0.2, nn.Tanh), ((50, 50), 1000, 0.2, nn.ReLU),
)  # fmt: skip


Trained = tuple[OnlineLaplace, Tensor, Tensor]


def regression(hidden: tuple[int, ...], n: int, noise: float, act: Any) -> Trained:
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * X[:, :3]).sum(1, keepdim=True) / 2
    y = y + noise * torch.randn(n, 1, generator=generator, dtype=torch.float64)
    torch.manual_seed(1)
    layers = [part for a, b in pairwise((4, *hidden)) for part in (nn.Linear(a, b), act())]
    module = nn.Sequential(*layers, nn.Linear(hidden[-1], 1)).double()
    tuner = OnlineLaplace(module, "gaussian", n_data=n, curvature="kron", cadence=Cadence(every=10))
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(2000):
        chosen = torch.randint(0, n, (100,), generator=generator)
        optimiser.zero_grad()
        tuner.loss(X[chosen], y[chosen], reduction="mean").backward()
        optimiser.step()
        tuner.update(X[chosen], y[chosen])
    return tuner, X, y


def images(n: int) -> Trained:
    X, y, _, _ = digits.rows(100)
    _, tuner = digits.trained(X[:n], y[:n], 100, 60, tune=True)
    tuner._observer._choice = Categorical(10)
    return tuner, X[:n], nn.functional.one_hot(y[:n], 10).float()


def compared(name: str, tuner: OnlineLaplace, X: Tensor, y: Tensor) -> dict[str, Any]:
    view, values, hyper = tuner.view, tuner.view.values(), tuner.hyper
    classes = y.argmax(1) if y.shape[1] > 1 else y
    H = tuner.posterior([(X, classes)]).H
    likelihood = tuner._observer.likelihood
    assert likelihood is not None
    tangent = tangent_model(linearise(view, values, X), y, likelihood)
    whole = tangent.J.collected().whole  # type: ignore[attr-defined]
    J = whole.flatten(0, 1).double() * float(hyper.beta) ** 0.5
    parts = J.split([slot.size for slot in view.tensors], dim=1)
    kernels = [part @ part.mT for part in parts]
    spectra = Spectra.of(H.values)
    norms = torch.stack([values[n].double().square().sum() for n in view.names])

    def exact(alpha: Tensor) -> Tensor:
        K = [k / a for k, a in zip(kernels, alpha, strict=True)]
        inverse = torch.linalg.inv(sum(K) + torch.eye(len(J), dtype=torch.float64))
        return torch.stack([(k * inverse).sum() for k in K])

    def kron(alpha: Tensor) -> Tensor:
        return SpectralEvidence(spectra, hyper.with_values(alpha.to(hyper.alpha), hyper.beta)).group_gamma()

    def separate(alpha: Tensor) -> Tensor:
        return torch.stack([(d / (d + a)).sum() for d, a in zip(H.data, alpha, strict=True)])

    row: dict[str, Any] = {"problem": name, "d_w": view.d_w, "outputs": len(J)}
    now = hyper.alpha.double()
    gamma = exact(now)
    largest = int(gamma.argmax())
    for key, function in (("exact", exact), ("kron", kron), ("separate", separate)):
        alpha = now
        for _ in range(6):
            alpha = function(alpha).double() / norms
        row[key] = {"gamma": float(function(now).sum()), "log_alpha": float(alpha[largest].log())}
    return row


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| | weights | exact γ | kron | separate | log α of the tensor with most γ: kron − exact | separate |"
    ]
    lines.append("| --- " * 7 + "|")
    for row in rows:
        exact, kron, separate = (row[key] for key in ("exact", "kron", "separate"))
        gaps = [f"{one['log_alpha'] - exact['log_alpha']:+.2f}" for one in (kron, separate)]
        gammas = [f"{one['gamma']:.1f}" for one in (exact, kron, separate)]
        lines.append("| " + " | ".join([row["problem"], f"{row['d_w']:,}", *gammas, *gaps]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", default="docs/data/overlap.json", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("\n".join(table_lines(json.loads(options.out.read_text())["rows"])))
        return
    rows = []
    for hidden, n, noise, act in PROBLEMS:
        name = f"{'-'.join(map(str, hidden))} {act.__name__}, {n:,} rows"
        rows.append(compared(name, *regression(hidden, n, noise, act)))
        print(rows[-1], flush=True)
    rows.append(compared("digits, 200 rows", *images(200)))
    print(rows[-1], flush=True)
    options.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
