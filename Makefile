# make run    set up on first use, then watch this machine; ARGS replaces the arguments: make run ARGS="hosts.yaml"
# make test   set up on first use, then the test suite;    ARGS goes to pytest:          make test ARGS="-k dmon"
#             (four test processes: most of them wait for something; WORKERS=0 for one without them)
# make lint, make bench, make docs

PYTHON ?= python3
WORKERS ?= 4
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.PHONY: run test lint bench docs clean
.DEFAULT_GOAL := run

run: $(INSTALLED)
	@$(BIN)/gpuwatch $(or $(ARGS),--local)

test: $(INSTALLED_DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED_DEV)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m tests.bench $(ARGS)

# the key reference is generated from the bindings
docs: $(INSTALLED)
	$(BIN)/python -m gpuwatch.tui.keys_page > $(VENV)/keys.md && mv $(VENV)/keys.md docs/keys.md

clean:
	rm -rf $(VENV)

# Debian and Ubuntu ship python3 without ensurepip: venv fails there half-way, so nothing half-made is left.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "gpuwatch needs Python 3.10 or later; $(PYTHON) is not. Name one: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "Installing gpuwatch into $(VENV)"
	@$(BIN)/python -m pip install --quiet -e . && touch $@

$(INSTALLED_DEV): pyproject.toml | $(BIN)/python
	@echo "Installing gpuwatch and its test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet -e '.[dev]' && touch $@ $(INSTALLED)
