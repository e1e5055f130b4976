# Needs GNU make and a python3 (3.11 or newer) with venv; everything else is installed by the targets.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv-core/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-core check format bench-solver bench-post bench-in bench-baselines clean

help:  ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)$$/make \1: \2/p' $(firstword $(MAKEFILE_LIST))

venv: .venv/.installed  ## create or refresh the development environment in .venv

# What a user has: the demo needs no torch and no test tools.
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[plot,parquet,save,cli]"
	@touch $@

.venv/.installed: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[plot,parquet,save,cli,torch,test]"
	@touch $@

# --clear, so that nothing but the core is ever left in this environment.
.venv-core/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-core
	$(CORE)/python -m pip install --quiet -c constraints.txt -e . pytest hypothesis
	@touch $@

demo: .venv/.ready  ## the main job on data that come with the package; pictures and tables in optfair-demo
	$(BIN)/optfair demo -o optfair-demo

# A process per core; threads of BLAS on top of that would only wait for each other.
test: .venv/.installed  ## run the tests with every extra
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto

test-core: .venv-core/.installed  ## run the same tests with the core dependencies only
	$(CORE)/python -m pytest -q

check: .venv/.installed  ## lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed  ## format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-solver: .venv/.installed  ## time the solver
	$(BIN)/python benchmarks/solver.py

bench-post: .venv/.installed  ## compare OptFairPost with the released code on Adult ($$OPTFAIR_DATA)
	$(BIN)/python benchmarks/post.py adult

bench-in: .venv/.installed  ## compare OptFairIn with the released schedule on Adult ($$OPTFAIR_DATA)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/inprocessing.py adult

bench-baselines: .venv/.installed  ## time the solvers of the baselines
	$(BIN)/python benchmarks/baselines.py

clean:  ## remove the environments, the caches and the build products
	rm -rf .venv .venv-core optfair-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
