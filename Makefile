# make demo        train, score and use a small translator from scratch (a few minutes)
# make setup       install Clearhead in .venv (VENV=folder, PYTHON=python3.12)
# make setup-dev   install what the tests need, too
# make test        run the fast tests
# make test-slow   run the tests that take minutes
# make test-lowest test with the lowest versions that pyproject.toml allows (needs uv)
# make lint        check style, formatting and types
# make campaign    kill runs, damage files and send hostile inputs at random (MINUTES=30)
# make docs        write docs/command-line.md again
# make site        build the documentation site in docs/_build/html
# make gallery     train the models of the site's gallery, and write its pages
# make clean       remove .venv and runs
VENV ?= .venv
PYTHON ?= python3
PIP_ARGS ?=
MINUTES ?= 30
BIN := $(VENV)/bin

.PHONY: help setup setup-dev demo test test-slow test-lowest campaign lint docs site gallery clean

help:
	@sed -n 's/^# \(make \)/\1/p' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Clearhead needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (make PYTHON=python3.12 ...)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[plot]'
	@touch $@

# Tests import a small part of these packages, so that part is compiled when it's imported.
$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[plot,dev]'
	@touch $@

demo: setup
	@$(BIN)/clearhead demo

# One thread per process: the tests are small, so two single-threaded processes are faster than one with two threads. Where
# a test asks for two, threads that wait sleep, since other tests need the cores.
# Each process gets neighbouring tests, which share what they set up, and takes over others' tests at the end. Bytecode is
# kept even where the environment turns that off: each of the processes that the tests start would compile everything again.
test: setup-dev
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal --durations=15 -m "not slow"

test-slow: setup-dev
	$(BIN)/python -m pytest -m slow

# Add --seed 1 for other trials: make campaign MINUTES=60 ARGS='--seed 1'
campaign: setup-dev
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) $(ARGS)

LOWEST := .venv-lowest
LOWEST_TESTS := tests/test_public_names.py tests/compatibility tests/demo/test_demo_model.py tests/model tests/folder \
	tests/serving/test_served_models.py tests/serving/test_server.py tests/test_estimator.py tests/decode/test_search.py
test-lowest:
	uv venv --quiet --clear --python 3.11 $(LOWEST)
	VIRTUAL_ENV=$(LOWEST) uv pip install --quiet --resolution lowest-direct 'pytest>=8' 'hypothesis>=6.100' \
		-e '.[plot,track,sklearn,images,audio,ct2,parquet,sentencepiece,serve]'
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(LOWEST)/bin/python -m pytest -m "not slow" -k "not may_attend_nowhere and not fuzzed" $(LOWEST_TESTS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict clearhead tools

docs: setup
	$(BIN)/python -m clearhead.cli.reference > docs/command-line.md

site: setup-dev
	$(BIN)/python -m sphinx -W --keep-going -E -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

gallery: setup-dev
	$(BIN)/python -m tools.gallery

clean:
	rm -rf $(VENV) runs
