"""`python -m online_laplace.cli` is `online-laplace`."""

from online_laplace.cli.main import main

main()
