"""Our Kronecker factors and products with the GGN beside those of curvlinops: how near, and how long.

    python benchmarks/curvlinops_ratio.py [docs/data/curvlinops.json]
    python benchmarks/curvlinops_ratio.py docs/data/curvlinops.json --table

In an environment that has curvlinops-for-pytorch. Classes, one batch, one thread, both in turns, the median
of their CPU seconds: an MLP, and the convolutional network of digits.py. Against the GGN's own diagonal
block of every weight matrix of up to 5,000 weights, the relative distance (Frobenius) of the Kronecker
products, all outputs and no sampling; for products with the whole GGN, the largest relative difference
between the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import digits
import torch
from torch import Tensor, nn

from online_laplace import OnlineLaplace
from online_laplace.modules.jacobian import RowsOperator, linearise, tangent_model
from online_laplace.modules.structures import Probes, build_kron

REPEATS = 9
LARGEST = 5000  # weights of a block that is written out


def problems() -> dict[str, tuple[nn.Module, Tensor, Tensor]]:
    X, y, _, _ = digits.rows(100)
    torch.manual_seed(0)
    layers = [part for a, b in pairwise((64, 100, 100)) for part in (nn.Linear(a, b), nn.Tanh())]
    flat = nn.Sequential(*layers, nn.Linear(100, 10))
    return {"MLP": (flat, X[:64].flatten(1), y[:64]), "convolutional": (digits.network(0), X[:64], y[:64])}


def seconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians, measured in turns after a run that does not count."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(REPEATS + 1):
        for name, run in runs.items():
            began = time.process_time()
            run()
            if turn:
                found[name].append(time.process_time() - began)
    return {name: statistics.median(times) for name, times in found.items()}


def compared(name: str, model: nn.Module, X: Tensor, y: Tensor) -> dict[str, Any]:
    from curvlinops import GGNLinearOperator, KFACLinearOperator

    tuner = OnlineLaplace(model, "categorical", n_data=len(y), curvature="kron")
    view, values = tuner.view, tuner.view.values()
    tuner._observer.settle(model(X))
    likelihood = tuner._observer.likelihood
    assert likelihood is not None
    generator = torch.Generator().manual_seed(0)
    targets = nn.functional.one_hot(y, 10).float()
    loss, parameters = nn.CrossEntropyLoss(reduction="sum"), list(model.parameters())

    def ours(count: int | None) -> Any:
        J = linearise(view, values, X, layers=True)
        return build_kron(tangent_model(J, targets, likelihood), Probes(count, generator))

    def theirs(kind: str) -> Any:
        found = KFACLinearOperator(
            model, loss, parameters, [(X, y)], fisher_type=kind, check_deterministic=False
        )
        found.compute_kronecker_factors()
        return found

    row: dict[str, Any] = {"problem": name, "d_w": view.d_w, "rows": len(y), "outputs": 10}
    row["all outputs"] = seconds({"ours": lambda: ours(None), "curvlinops": lambda: theirs("type-2")})
    row["one probe"] = seconds({"ours": lambda: ours(1), "curvlinops": lambda: theirs("mc")})

    tangent = tangent_model(linearise(view, values, X), targets, likelihood)
    J = tangent.J.collected().whole.flatten(0, 1)  # type: ignore[attr-defined]
    mine, other = ours(None), theirs("type-2")
    distances: dict[str, list[float]] = {"ours": [], "curvlinops": []}
    for position, (own, part) in enumerate(zip(view.names, J.split(view.lengths, dim=1), strict=True)):
        if own.endswith("bias") or part.shape[1] > LARGEST:
            continue
        block = mine.blocks[position]
        G = part.mT @ part
        layer = own.rpartition(".")[0]
        factors = other._gradient_covariances[layer], other._input_covariances[layer]
        for key, product in {
            "ours": torch.kron(block.left, block.right) / block.count,
            "curvlinops": torch.kron(*factors),
        }.items():
            distances[key].append(float((product - G).norm() / G.norm()))
    row["distance from the block"] = {key: statistics.mean(each) for key, each in distances.items()}

    operator = RowsOperator(view, values, X, tangent.J.root)  # type: ignore[attr-defined]
    whole = GGNLinearOperator(model, loss, parameters, [(X, y)], check_deterministic=False)
    v = torch.randn(view.d_w, generator=generator)
    row["product"] = seconds({"ours": lambda: operator.vjp(operator.jvp(v)), "curvlinops": lambda: whole @ v})
    difference = operator.vjp(operator.jvp(v)) - whole @ v
    row["product difference"] = float(difference.abs().max() / (whole @ v).abs().max())
    return row


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Ratios of the times, and the distances, as a Markdown table."""
    lines = ["| | factors, all outputs | factors, one probe | product | distance: ours | curvlinops |"]
    lines.append("| --- " * 6 + "|")
    for row in rows:
        ratios = [row[k]["curvlinops"] / row[k]["ours"] for k in ("all outputs", "one probe", "product")]
        far = row["distance from the block"]
        cells = [f"{r:.1f}" for r in ratios] + [f"{far['ours']:.2f}", f"{far['curvlinops']:.2f}"]
        lines.append("| " + " | ".join([row["problem"], *cells]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", default="docs/data/curvlinops.json", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("\n".join(table_lines(json.loads(options.out.read_text())["rows"])))
        return
    from importlib.metadata import version

    torch.set_num_threads(1)
    rows = []
    for name, problem in problems().items():
        rows.append(compared(name, *problem))
        print(rows[-1], flush=True)
    about = {"torch": torch.__version__, "curvlinops": version("curvlinops-for-pytorch")}
    options.out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
