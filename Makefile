# Two commands: `make run` and `make test`. Each sets up what it needs in .venv and nowhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check unit cluster clean help

help:
	@echo "make run    install, then train the six jobs of examples/quickstart.yaml on this machine"
	@echo "make test   install everything, then run every check and test"
	@echo "make check  format, lint, types and import rules only"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headway needs Python 3.11 or newer; set PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.made
	@echo "installing headway with its example framework (about a minute)"
	$(BIN)/pip install --quiet -e '.[train]'
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.made
	@echo "installing headway with every extra (about two minutes)"
	$(BIN)/pip install --quiet -e '.[train,kube,lab,dev]'
	@touch $@

run: $(VENV)/.run
	$(BIN)/headway run examples/quickstart.yaml

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest

clean:
	rm -rf $(VENV)
