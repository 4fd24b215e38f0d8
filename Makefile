# Needs Python 3.11 or newer with pip and venv; choose one with `make PYTHON=python3.12 …`.

PYTHON ?= python3
# Where the recorded corpus lies, and the sessions that `python -m benchmarks.replay` plays.
CONTEXT_ASSEMBLER_CORPUS ?= ../shared/data
CONTEXT_ASSEMBLER_BENCH ?= ../shared/bench
# What `make bench` measures: `--plan full` for more rounds, `--plan quick` for a look, `--part N`.
BENCH_OPTIONS ?=
# Tests run side by side, on as many processors as there are; `make test PYTEST_OPTIONS=` runs one by one.
PYTEST_OPTIONS ?= --numprocesses auto --dist worksteal
# Which budgets of scripts/budgets.json `make house` prints: `complete` is where the package has to get
# to. What `make check` and the tests hold is `reached`: no folder grows beyond what it was made of.
STAGE ?= complete
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# `make integrations FRAMEWORKS=langchain` for one alone; each has an environment of its own.
FRAMEWORKS ?= $(basename $(notdir $(wildcard tests/integrations/requirements/*.txt)))
FRAMEWORK_VENVS := .venv-integrations

.DEFAULT_GOAL := help
.PHONY: help setup browser demo test integrations release check house docs bench clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

setup: $(INSTALLED) ## Create .venv with the package and everything its checks need

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 setup")'
	@echo "Setting up $(VENV) with everything the checks need: one to two minutes …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: setup ## Assemble a long sample session and show what was kept, cut, and why
	@$(BIN)/context-assembler demo

browser: ## Install the Chromium of Debian for the tests of the pages, if it is missing and we are root
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
		--no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1; } || \
		echo "There is no Chromium: the tests of the pages in a browser are skipped."

test: export PYTHONDONTWRITEBYTECODE := # what was compiled is not compiled again by each program
test: setup browser ## Run all tests
	$(BIN)/pytest $(PYTEST_OPTIONS)

integrations: $(FRAMEWORKS:%=$(FRAMEWORK_VENVS)/%/.installed) ## Run the agent loops of the frameworks, each in an environment of its own
	@failed=; for name in $(FRAMEWORKS); do \
		$(FRAMEWORK_VENVS)/$$name/bin/python -m pytest -qs tests/integrations/test_$$name.py || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "Failed:$$failed"; exit 1; }

$(FRAMEWORK_VENVS)/%/.installed: tests/integrations/requirements/%.txt pyproject.toml
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable . --requirement $<
	@touch $@

release: setup ## Install wheel and sdist in empty environments, for every Python on PATH, and run the first page
	$(BIN)/python scripts/try_release.py

house: setup ## Print the package's size by folder next to its budget
	-@$(BIN)/python scripts/house.py --stage $(STAGE)

check: setup browser ## Run every check that a change must pass
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/python scripts/house.py --stage reached
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/python scripts/write_reference.py --check
	$(BIN)/pytest $(PYTEST_OPTIONS) --cov --cov-report=term-missing

docs: setup ## Write docs/reference/ from the code
	$(BIN)/python scripts/write_reference.py

bench: export CONTEXT_ASSEMBLER_CORPUS := $(CONTEXT_ASSEMBLER_CORPUS)
bench: export CONTEXT_ASSEMBLER_BENCH := $(CONTEXT_ASSEMBLER_BENCH)
bench: setup ## Print the table of targets, measured beside other libraries
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

clean: ## Remove .venv and everything that the checks leave behind
	rm -rf $(VENV) $(FRAMEWORK_VENVS) .venv-bench* .bench-data build dist .coverage htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
