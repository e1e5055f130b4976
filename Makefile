# Needs GNU make and a python3 (3.11 or newer) with venv; everything else is installed by the targets.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv-core/bin
# A process per core; threads of torch and LightGBM on top of that would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-slow test-core check format docs docs-open pages experiments timings bench dist clean

help:  ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)$$/make \1: \2/p' $(firstword $(MAKEFILE_LIST))

venv: .venv/.installed  ## create or refresh the development environment in .venv

# What a user has: the demo needs no torch and no test tools.
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[plot,parquet,save,cli,report]"
	@touch $@

.venv/.installed: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[plot,parquet,save,cli,report,dask,onnx,serve,torch,experiments,test]"
	@touch $@

# --clear, so that nothing but the core is ever left in this environment.
.venv-core/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-core
	$(CORE)/python -m pip install --quiet -c constraints.txt -e . pytest pytest-xdist hypothesis
	@touch $@

demo: .venv/.ready  ## the main job on data that come with the package; pictures and tables in optfair-demo
	$(BIN)/optfair demo -o optfair-demo

test: .venv/.installed  ## run the tests with every extra; minutes
	$(BIN)/python -m pytest -q -n auto -m "not slow"

test-slow: .venv/.installed  ## run what must be slow: simulations of coverage, killed runs, smoke runs of experiments
	$(BIN)/python -m pytest -q -n auto -m slow

# What may depend on the packages that are there; the mathematics does not, and was run by `make test`.
CORE_TESTS := $(filter-out $(addprefix tests/,constraints dual metrics monitoring rule synthetic),$(patsubst %/,%,$(wildcard tests/*/)))
test-core: .venv-core/.installed  ## run the quick tests with the core dependencies only, where extras could matter
	$(CORE)/python -m pytest -q -n auto -m "not slow" $(CORE_TESTS)

check: .venv/.installed  ## lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed  ## format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Everything that is needed to build the site, MathJax too: nothing is fetched while it is built.
.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	@touch $@

docs: .venv/.docs  ## build the site in build/site; examples run, warnings are errors
	MPLBACKEND=agg $(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/site
	@echo "build/site/index.html"

docs-open: docs  ## build the site and show it in a browser
	$(PYTHON) -m webbrowser -t "file://$(CURDIR)/build/site/index.html"

experiments: .venv/.installed  ## run what is missing of the experiments and write their pages; a day, and needs OPTFAIR_DATA
	$(ONE_THREAD) $(BIN)/python -m experiments --out experiments/results --pages docs/results --jobs 2

pages: .venv/.installed  ## write all pages of results from the recorded runs
	$(BIN)/python -m experiments --out experiments/results --pages docs/results --only-page
	for name in coverage bench scale export service; do $(BIN)/python -m experiments.$$name --only-page || exit 1; done
	$(BIN)/python -m experiments.overview

timings: .venv/.installed  ## measure seconds: all timings, or one, as in make timings NAME=solver
	$(BIN)/python -m experiments.timings $(NAME)

bench: .venv/.installed  ## compare speed with the previous release and other libraries, and write docs/results/speed.md; an hour
	$(BIN)/python -m experiments.bench $(ARGS)

# Each file is installed in an environment of its own and used from an empty folder.
dist: .venv/.installed  ## build the wheel and the source distribution in dist, check them, install and use each
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[release]"
	rm -rf dist build/dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	for file in dist/*; do \
	    $(PYTHON) -m venv --clear build/dist && \
	    build/dist/bin/python -m pip install --quiet -c constraints.txt "$(CURDIR)/$$file[plot,parquet,save,cli,report]" && \
	    build/dist/bin/python -I tests/project/distribution.py || exit 1; \
	done

clean:  ## remove the environments, the caches and the build products
	rm -rf .venv .venv-core .bench optfair-demo build dist docs/gallery docs/reference/generated docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
