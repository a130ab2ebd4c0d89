# make demo        train, score and use a small translator from scratch (a few minutes)
# make test        run the fast tests
# make test-slow   run the tests that take minutes
# make campaign    kill runs, damage files and send hostile inputs at random (MINUTES=30)
VENV ?= .venv
PYTHON ?= python3
PIP_ARGS ?=
MINUTES ?= 30
BIN := $(VENV)/bin

.PHONY: setup setup-dev demo test test-slow campaign lint docs clean

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Clearhead needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (make PYTHON=python3.12 ...)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[plot]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[plot,dev]'
	@touch $@

demo: setup
	@$(BIN)/clearhead demo

# One thread per process: the tests are small, so two single-threaded processes are faster than one with two threads.
test: setup-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-slow: setup-dev
	$(BIN)/python -m pytest -m slow

# Add --seed 1 for other trials: make campaign MINUTES=60 ARGS='--seed 1'
campaign: setup-dev
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) $(ARGS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict clearhead

docs: setup
	$(BIN)/python -m clearhead.cli.reference > docs/command-line.md

clean:
	rm -rf $(VENV) runs
