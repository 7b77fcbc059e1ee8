# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test clean

demo: $(VENV)/.installed
	@$(BIN)/reltucker demo

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "reltucker needs Python 3.11 or later, and '$(PYTHON)' is older or missing;" \
		"run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing; install it (Debian: apt-get install python3-venv)" >&2; exit 2; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing reltucker (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing the test tools"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Tests of the page run in a browser, and are skipped with a reason where there is none.
$(VENV)/.browser: | $(VENV)/bin/python
	@command -v chromium >/dev/null || echo "installing chromium for the tests of the page"
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || \
		echo "chromium cannot be installed here, so the page is not tested"
	@touch $@

clean:
	rm -rf $(VENV) demo
