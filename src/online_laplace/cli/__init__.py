"""The command line: one file a command, each of which parses, calls and prints. No mathematics here."""

from online_laplace.cli.main import main

__all__ = ["main"]
