# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs clean release-check

demo: $(VENV)/.installed
	@$(BIN)/reltucker demo

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadgroup

# What is released works without the repository: a wheel in a fresh environment, an empty folder.
release-check: $(VENV)/.installed-release
	@set -e; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; unset PYTHONPATH; \
	echo "building sdist and wheel"; \
	$(BIN)/python -m build --outdir "$$new/dist" . >"$$new/log" 2>&1 || { cat "$$new/log"; exit 1; }; \
	$(BIN)/python -m twine check --strict "$$new"/dist/*; \
	echo "installing the wheel in a fresh environment (takes a few minutes)"; \
	$(BIN)/python -m venv "$$new/venv"; wheel=$$(ls "$$new"/dist/*.whl); \
	"$$new/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$wheel[serve]"; \
	mkdir "$$new/empty"; cd "$$new/empty"; PATH="$$new/venv/bin:$$PATH"; \
	version=$$(basename "$$wheel" | cut -d- -f2); \
	test "$$(reltucker --version)" = "reltucker $$version"; \
	reltucker train best/wn18rr-complex-500 --graph families --show-recipe >/dev/null; \
	reltucker demo; \
	echo "reltucker $$version can be released"

# The site, in site/; what it tells of the program is made from the program.
docs: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "wrote site/index.html"

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

$(VENV)/.installed-release: $(VENV)/.installed
	@echo "installing what builds and checks a release"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "installing the tools of the site"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Tests of the page run in a browser, and are skipped with a reason where there is none.
$(VENV)/.browser: | $(VENV)/bin/python
	@command -v chromium >/dev/null || echo "installing chromium for the tests of the page"
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || \
		echo "chromium cannot be installed here, so the page is not tested"
	@touch $@

clean:
	rm -rf $(VENV) demo site
