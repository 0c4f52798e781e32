# make run        set up on first use, then watch this machine; ARGS replaces the arguments: make run ARGS="hosts.yaml"
# make test       set up on first use, then the test suite;    ARGS goes to pytest:          make test ARGS="-k dmon"
#                 (seven test processes: most of them wait for something; WORKERS=0 for one without them)
# make test-long  the tests that take minutes (marked `long`), which make test leaves out
# make test-agent the agent and the launcher of the probe on the oldest Pythons of nodes; make old-pythons brings these
# make test-wheel the wheel in dist/, installed by pipx, prints its version and a report of the demo
# make lint, make bench, make docs, make wheel

PYTHON ?= python3
WORKERS ?= 7
PIPX ?= pipx
NODE_PYTHONS := 3.6 3.8
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
INSTALLED := $(VENV)/.installed
PYENV_VERSIONS := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
NODE_TESTS := $(subst $() , or ,$(NODE_PYTHONS))
# Hundreds of tests start a Python process: without kept bytecode each of them compiles the whole program again.
unexport PYTHONDONTWRITEBYTECODE
INSTALLED_TOOLS := $(VENV)/.installed-tools
INSTALLED_DEV := $(VENV)/.installed-dev
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: run test test-long test-agent test-wheel old-pythons wheel lint bench docs clean
.DEFAULT_GOAL := run

run: $(INSTALLED)
	@$(BIN)/gpuwatch $(or $(ARGS),--local)

# In a new clone two processes compile the test modules first, which each of the seven would do otherwise.
test: $(INSTALLED_DEV)
	@test -d tests/__pycache__ || printf '%s\n' tests/*/ | \
	    xargs -n 12 -P 2 $(BIN)/python -m pytest -q -p no:xdist --collect-only > /dev/null || true
	$(PYTEST) -m 'not long' $(ARGS)

test-long: $(INSTALLED_DEV)
	$(PYTEST) -m long $(ARGS)

test-agent: $(INSTALLED_DEV)
	GPUWATCH_REQUIRE_PYTHONS="$(NODE_PYTHONS)" $(PYTEST) -k "$(NODE_TESTS)" $(ARGS) \
	    tests/agent tests/probe/launcher

# into the folder of pyenv, where the tests look for interpreters
old-pythons:
	@for version in $(NODE_PYTHONS); do \
	    ls $(PYENV_VERSIONS)/$$version.*/bin/python > /dev/null 2>&1 || \
	    conda create --yes --quiet --override-channels --channel conda-forge \
	        --prefix $(PYENV_VERSIONS)/$$version.0 python=$$version || exit 1; \
	done

wheel: $(BIN)/python
	rm -rf dist build
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

test-wheel: wheel
	PIPX_HOME=$(CURDIR)/dist/pipx PIPX_BIN_DIR=$(CURDIR)/dist/bin PIPX_MAN_DIR=$(CURDIR)/dist/man \
	    $(PIPX) install --python $(PYTHON) dist/*.whl
	dist/bin/gpuwatch --version
	dist/bin/gpuwatch explain hang > /dev/null
	test -s dist/man/man1/gpuwatch.1
	dist/bin/gpuwatch once --demo --wait 60 > /dev/null; test $$? -le 1

lint: $(INSTALLED_TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED_DEV)
	$(PIP) install --quiet -e '.[bench]'
	$(BIN)/python -m tests.bench $(ARGS)

# the key reference is generated from the bindings, the man page from the help, the playbook from its data
docs: $(INSTALLED)
	$(BIN)/python -m gpuwatch.tui.key_reference > $(VENV)/keys.md && mv $(VENV)/keys.md docs/keys.md
	$(BIN)/python -m gpuwatch.cli.man_page > $(VENV)/gpuwatch.1 && mv $(VENV)/gpuwatch.1 docs/gpuwatch.1
	$(BIN)/python -m gpuwatch.report.explain.page > $(VENV)/playbook.md && mv $(VENV)/playbook.md docs/playbook.md

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
	@$(PIP) install --quiet -e . && touch $@

$(INSTALLED_TOOLS): pyproject.toml | $(BIN)/python
	@echo "Installing gpuwatch and its test tools into $(VENV)"
	@$(PIP) install --quiet -e '.[tools]' && touch $@ $(INSTALLED)

# A wheel of torch in a folder that pip's own settings name (find-links) goes before the index, whose wheel for Linux
# x86-64 brings all of CUDA. Where no wheel fits this Python, the tests that need torch are skipped.
$(INSTALLED_DEV): $(INSTALLED_TOOLS)
	@echo "Installing torch into $(VENV): a download of 0.2 GB as its CPU build, 3 GB where pip takes the one with CUDA"
	@$(PIP) install --quiet --no-index --no-deps torch 2> /dev/null || true
	@$(PIP) install --quiet -e '.[dev]' 2> $(VENV)/torch.log || { cat $(VENV)/torch.log >&2; \
	    case "$$(cat $(VENV)/torch.log)" in *"No matching distribution found for torch"*) \
	    echo "no wheel of torch fits this Python: the tests that need it are skipped";; *) exit 1;; esac; }
	@touch $@
