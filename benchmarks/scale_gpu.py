"""What learning the precisions costs: time and memory of one update, and the overhead over plain training.

    python benchmarks/scale_gpu.py OUT.json [--device cuda] [--parts overhead,weights,rows,runs]
        [--small] [--tiny]

One file that needs torch and this package (PYTHONPATH=src) and nothing else. The parts are run in the order
given here, the most important first, and rows are written as they come. As docs/data/scale_gpu.json they are
drawn, and written into the guide, by benchmarks/draw_scale.py.

weights    one update for d_w = 1e4 … 1e8: diagonal and kron on a mini-batch (a look, and a look that
           renews the eigenvalues), matrix-free on as many rows; an MLP of tanh layers, k = 10 classes
rows       one update from n = 1e3 … 1e6 rows at d_w ≈ 1e5: update_all over batches of up to 50,000 rows
overhead   a ResNet-18 (CIFAR's variant, 11.2 million weights, batch normalisation) and a transformer of six
           layers: a step of plain training; a step with the tuner's loss; a look; a look that renews the
           eigenvalues. From these the overhead of the default cadence in a run of so many steps:
           (loss − plain + (looks · look + renewals · (renewal − look)) / steps) / plain
runs       the same two networks for a thousand steps, plain and tuned at the default cadence, as they come

`--small` takes narrow networks for the overhead, for a CPU: its share there is that of the arithmetic.
`--tiny` runs all of it in seconds at sizes at which nothing is worth timing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from online_laplace import OnlineLaplace
from online_laplace.modules import Cadence

CLASSES = 10
TOGETHER = 10
RUN = 1000
MOST_ROWS = 50_000  # of a batch
STEPS = (2_000, 10_000, 78_000)  # the last: 200 epochs of CIFAR-10 in batches of 128


def mlp(weights: float) -> nn.Module:
    """About so many weights: 64 inputs, six square layers, ten outputs."""
    width = max(8, round((weights / 6) ** 0.5))
    sizes = [64, *[width] * 7]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.short = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.short(x))


def resnet(width: int = 64) -> nn.Module:
    """ResNet-18 for images of 32 × 32."""
    stages, inputs = [], width
    for stage in range(4):
        outputs = width * 2**stage
        stages += [Residual(inputs, outputs, 1 if stage == 0 else 2), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), *stages,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Words to a class: an embedding, blocks, the mean over positions."""

    def __init__(self, words: int = 10_000, length: int = 128, width: int = 256, depth: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, max(1, width // 64)) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))).mean(1))


class Clock:
    """Median seconds and peak bytes of something, after a run that does not count."""

    def __init__(self, device: torch.device, repeats: int) -> None:
        self.device, self.repeats = device, repeats

    def _sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def once(self, run: Callable[[], Any]) -> float:
        self._sync()
        # What a CPU does for others is not counted.
        now = time.process_time if self.device.type == "cpu" else time.perf_counter
        began = now()
        run()
        self._sync()
        return now() - began

    def __call__(self, run: Callable[[], Any], *, warm: bool = True) -> dict[str, float]:
        if warm:
            run()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        seconds = statistics.median(self.once(run) for _ in range(self.repeats))
        peak = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else float("nan")
        return {"seconds": seconds, "peak_bytes": peak}


def data(n: int, device: torch.device, inputs: int = 64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    X = torch.randn(n, inputs, generator=generator, device=device)
    return X, torch.randint(0, CLASSES, (n,), generator=generator, device=device)


def by_weights(sizes: list[float], batch: int, device: torch.device, clock: Clock) -> Iterator[dict]:
    x, y = data(batch, device)
    for size in sizes:
        for curvature in ("diagonal", "kron", "matrix-free"):
            torch.manual_seed(0)
            model = mlp(size).to(device)
            row = {"part": "weights", "d_w": sum(p.numel() for p in model.parameters()), "rows": batch}
            row |= {"curvature": curvature}
            before = torch.cuda.memory_allocated(device) if device.type == "cuda" else float("nan")
            row["module_bytes"] = before
            every = {"every": 1, "stretch": 1.0, "decay": 0.5}
            try:
                if curvature == "matrix-free":
                    tuner = OnlineLaplace(model, "categorical", n_data=batch, curvature=curvature)
                    yield row | {"look": "10 probes"} | clock(lambda t=tuner: t.update_all([(x, y)]))
                    continue
                cadence = Cadence(refresh=10**9, **every)
                tuner = OnlineLaplace(
                    model, "categorical", n_data=10 * batch, curvature=curvature, cadence=cadence
                )
                yield row | {"look": "usual"} | clock(lambda t=tuner: t.update(x, y))
                if curvature == "kron":
                    cadence = Cadence(refresh=1, patience=0.0, **every)
                    tuner = OnlineLaplace(
                        model, "categorical", n_data=10 * batch, curvature=curvature, cadence=cadence
                    )
                    yield row | {"look": "renewal"} | clock(lambda t=tuner: t.update(x, y))
            except Exception as error:  # too large for this device, most often: told, and the next one tried
                yield row | {"error": f"{type(error).__name__}: {str(error)[:200]}"}
            finally:
                del model
                if device.type == "cuda":
                    torch.cuda.empty_cache()


def by_rows(
    counts: list[int], weights: float, device: torch.device, clock: Clock, curvatures: list[str]
) -> Iterator[dict]:
    torch.manual_seed(0)
    model = mlp(weights).to(device)
    d_w = sum(p.numel() for p in model.parameters())
    for n in counts:
        x, y = data(n, device)
        batch = min(n, MOST_ROWS)
        for curvature in curvatures:
            # conjugate gradients of many rows do not arrive in single precision
            dtype = torch.float64 if curvature == "matrix-free" else torch.float32
            model, x = model.to(dtype), x.to(dtype)
            batches = list(zip(x.split(batch), y.split(batch), strict=True))
            row = {"part": "rows", "d_w": d_w, "rows": n, "batch": batch, "curvature": curvature}
            row |= {"dtype": str(dtype).removeprefix("torch.")}
            probes = {"probes": 2} if curvature == "matrix-free" else {}
            tuner = OnlineLaplace(model, "categorical", n_data=n, curvature=curvature, **probes)
            try:
                # Where an update takes long, one is enough.
                own = clock if n <= 10_000 else Clock(device, 1)
                yield row | own(lambda t=tuner, b=batches: t.update_all(b), warm=n <= 10_000)
            except Exception as error:
                yield row | {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def overhead(name: str, model: nn.Module, x: Tensor, device: torch.device, clock: Clock) -> dict:
    """The four times, and the overhead of the default cadence in runs of some lengths."""
    y = data(len(x), device)[1]
    n_data = 50_000
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def plain() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()

    def make(cadence: Cadence) -> OnlineLaplace:
        return OnlineLaplace(
            model, "categorical", n_data=n_data, curvature="kron", normalisation="accept", cadence=cadence
        )

    tuner = make(Cadence(every=1, stretch=1.0, refresh=10**9))

    idle = make(Cadence(every=10**9))

    def with_loss() -> None:
        optimiser.zero_grad()
        idle.loss(x, y, reduction="mean").backward()
        optimiser.step()
        idle.update(x, y)  # whose look is never due

    fresh = make(Cadence(every=1, stretch=1.0, refresh=1, patience=0.0))
    # Steps are timed many at a time, since a device lags behind the one that tells it what to do.
    together = {"plain": plain, "with_loss": with_loss}
    times = {name: clock(lambda run=run: [run() for _ in range(TOGETHER)]) for name, run in together.items()}
    for found in times.values():
        found["seconds"] /= TOGETHER
    times["look"] = clock(lambda: tuner.update(x, y))
    times["renewal"] = clock(lambda: fresh.update(x, y))
    seconds = {key: found["seconds"] for key, found in times.items()}
    shares = {}
    for steps in STEPS:
        looks, renewals = Cadence().costs(steps)
        extra = looks * seconds["look"] + renewals * (seconds["renewal"] - seconds["look"])
        shares[str(steps)] = (seconds["with_loss"] - seconds["plain"] + extra / steps) / seconds["plain"]
    d_w = sum(p.numel() for p in model.parameters())
    return {
        "part": "overhead",
        "module": name,
        "d_w": d_w,
        "batch": len(x),
        "times": times,
        "overhead": shares,
    }


def run(name: str, model: nn.Module, x: Tensor, steps: int, device: torch.device, clock: Clock) -> dict:
    """Seconds of a plain run and of a tuned one, each from a few steps that do not count."""
    y = data(len(x), device)[1]
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tuner = OnlineLaplace(
        model, "categorical", n_data=50_000, curvature="kron", normalisation="accept", cadence=Cadence()
    )

    def plain() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()

    def tuned() -> None:
        optimiser.zero_grad()
        tuner.loss(x, y, reduction="mean").backward()
        optimiser.step()
        tuner.update(x, y)

    def times(one: Callable[[], None]) -> float:
        for _ in range(3):
            one()
        return clock.once(lambda: [one() for _ in range(steps)])

    found = {"plain": times(plain), "tuned": times(tuned)}
    share = found["tuned"] / found["plain"] - 1
    return {"part": "runs", "module": name, "steps": steps, "looks": tuner.looks, **found, "overhead": share}


def networks(size: str, device: torch.device) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """The two networks with a batch for each: "tiny", "small" or "usual"."""
    batch, side, width = {"tiny": (2, 8, 4), "small": (32, 32, 16), "usual": (128, 32, 64)}[size]
    yield "ResNet-18", resnet(width).to(device), torch.randn(batch, 3, side, side, device=device)
    shape = {
        "tiny": {"words": 50, "length": 6, "width": 16, "depth": 1},
        "small": {"words": 1000, "length": 32, "width": 128, "depth": 2},
        "usual": {"words": 10_000, "length": 128, "width": 256, "depth": 6},
    }[size]
    words = torch.randint(0, shape["words"], (batch, shape["length"]), device=device)
    yield "transformer", Transformer(**shape).to(device), words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", default="overhead,weights,rows,runs")
    parser.add_argument("--curvatures", default="diagonal,kron,matrix-free", help="of the part rows")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    device, clock = torch.device(options.device), Clock(torch.device(options.device), options.repeats)
    about = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "repeats": options.repeats,
    }
    found: list[dict] = []

    def keep(row: dict) -> None:
        found.append(row)
        options.out.write_text(json.dumps({**about, "rows": found}, indent=1) + "\n")
        print(json.dumps(row), flush=True)

    parts, tiny = options.parts.split(","), options.tiny
    size = "tiny" if tiny else "small" if options.small else "usual"
    torch.manual_seed(0)
    if "overhead" in parts:
        for name, model, x in networks(size, device):
            keep(overhead(name, model, x, device, clock))
    if "weights" in parts:
        sizes = [1e3] if tiny else [1e4, 1e5, 1e6, 1e7, 1e8]
        for row in by_weights(sizes, 16 if tiny else 1000, device, clock):
            keep(row)
    if "rows" in parts:
        counts = [20] if tiny else [1000, 10_000, 100_000, 1_000_000]
        for row in by_rows(counts, 1e3 if tiny else 1e5, device, clock, options.curvatures.split(",")):
            keep(row)
    if "runs" in parts:
        for name, model, x in networks(size, device):
            keep(run(name, model, x, 40 if tiny else RUN, device, clock))


if __name__ == "__main__":
    main()
