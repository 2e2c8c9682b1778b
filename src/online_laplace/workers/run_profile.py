"""`online-laplace reproduce` without figures and report, for a machine with a GPU and little else.

    python -m online_laplace.workers.run_profile --profile paper --device cuda --out runs/paper

trains in this one process and needs nothing installed but torch, NumPy, SciPy, threadpoolctl and safetensors.
Stopped by Ctrl-C or by a time limit (TERM), the same command goes on from where it was.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from online_laplace.errors import OnlineLaplaceError
from online_laplace.process import prepare
from online_laplace.progress import say
from online_laplace.protocol.profile import adjusted, named_profile
from online_laplace.workers.experiment import train_all
from online_laplace.workers.here import run_here


def main(arguments: list[str] | None = None) -> int:
    """Parse and train; the exit code is that of `reproduce`."""
    options = _parser().parse_args(arguments)
    prepare()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        profile = adjusted(
            named_profile(options.profile),
            tables=options.tables,
            procedures=options.procedures,
            splits=options.splits,
            threads=options.threads,
            settings=[f"device={options.device}", *options.settings],
        )
        train_all(profile, options.out, run_here, restart=options.restart, quiet=True)
    except OnlineLaplaceError as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped: the same command goes on from here")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run_profile", description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--tables", nargs="+", help="only these")
    parser.add_argument("--procedures", nargs="+", help="only these of ol, lm, offline")
    parser.add_argument("--splits", type=int, help="how many, from the first on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--restart", action="store_true", help="set an earlier run in the folder aside")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
