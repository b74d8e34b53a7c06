# make quickstart   environment, three models on the bundled equations, table and figures/quickstart.svg
# make test         environment, then the tests that are quick: the default engine, one process, few equations
# make test-all     all tests, the long ones too: native code, several processes, labels in thousands, kills, sweeps, benchmarks
# make check        style and types, then the suite
# make docs         the documentation as a site, in build/site; a broken link is an error
# make fuzz         INPUTS damaged inputs of every kind, counted, resumable (fuzz/); 2,000 graphs against topo
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN = $(VENV)/bin
JOBS ?= 2
INPUTS ?= 100000
MODELS = tree_smu tree_lstm tree_rnn
export OMP_NUM_THREADS = 1

.PHONY: quickstart test test-all fuzz check docs environment
.DEFAULT_GOAL = quickstart

environment: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[test]"
	touch $@

quickstart: environment
	$(BIN)/treestack train $(MODELS:%=configs/quickstart/%.toml) --output-dir runs --jobs $(JOBS) --resume
	$(BIN)/treestack plot depth $(MODELS:%=runs/quickstart-%-0) --output figures/quickstart.svg
	$(BIN)/treestack report $(MODELS:%=runs/quickstart-%-0)

test: environment
	$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist loadfile -m "not slow"

test-all: environment
	$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal

fuzz: environment
	$(BIN)/python -m fuzz --inputs $(INPUTS)
	TREESTACK_FUZZ=2000 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile tests/propagate/test_any_graph.py

check: environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[dev]"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test-all

docs: environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
