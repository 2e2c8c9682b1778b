"""Run the script for laplace-torch that the guide shows, and its counterpart here, as they stand there.

    python benchmarks/side_by_side.py [docs/data/side_by_side.json]

In an environment that has laplace-torch. Both blocks are taken from docs/guides/from-laplace-torch.md, after
the heading "Two scripts", and get the model, loader and rows of the first example of docs/guides/modules.md.
What they print is stored with the blocks, so that a test can tell whether the guide still shows what was run.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "from-laplace-torch.md"


def blocks(guide: str) -> list[str]:
    """The two scripts, theirs first."""
    section = guide.split("## Two scripts")[1]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


def names() -> dict[str, Any]:
    """What the scripts take as given."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(labels), generator=generator)
    X = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8)[order] / 8 - 1
    y = torch.tensor(labels)[order]
    loader = DataLoader(TensorDataset(X[:600], y[:600]), 60, shuffle=True, generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 10),
    )  # fmt: skip
    return {"torch": torch, "model": model, "loader": loader, "x": X[600:900], "y": y[600:900]}


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/data/side_by_side.json")
    torch.set_num_threads(1)
    found = []
    for block in blocks(GUIDE.read_text()):
        printed, began = io.StringIO(), time.process_time()
        with contextlib.redirect_stdout(printed):
            exec(block, names())  # the guide's own text
        seconds = time.process_time() - began
        found.append({"block": block, "printed": printed.getvalue(), "cpu_seconds": seconds})
        print(f"{printed.getvalue()}{seconds:.1f} CPU seconds", flush=True)
    from importlib.metadata import version

    about = {"torch": torch.__version__, "laplace-torch": version("laplace-torch")}
    out.write_text(json.dumps({**about, "scripts": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
