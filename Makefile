# Two commands: `make demo` shows what fwnet does, `make test` checks that it does it right.
# Each makes .venv and installs into it first; a second run installs nothing again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
MINUTES ?= 10
JOBS ?= 2

.PHONY: help demo test check lint types imports pytest smoke faults fuzz format docs clean

help:
	@echo "make demo    a tour of what fwnet does, on built-in data; writes demo/index.html"
	@echo "make test    lint, types, import contracts and all tests (minutes)"
	@echo "make check   the same with one short test per room (less than a minute)"
	@echo "make faults  prove that the tests catch deliberate mistakes (ten minutes)"
	@echo "make fuzz    try bad input of every kind; MINUTES=10 JOBS=2 by default"
	@echo "make format  let ruff format and fix the code"
	@echo "make docs    build the site, with its gallery, into build/docs (minutes)"
	@echo "make clean   remove .venv and everything built"

demo: $(INSTALLED)
	$(BIN)/fwnet demo --output demo

test: lint types imports pytest

check: lint types imports smoke

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

pytest: $(INSTALLED)
	$(BIN)/pytest -n 2

smoke: $(INSTALLED)
	$(BIN)/pytest -n 2 tests/test_smoke.py

faults: $(INSTALLED)
	$(BIN)/python -m tests.deliberate_faults --table tests/FAULTS.md

fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --jobs $(JOBS) --output build/fuzz

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(INSTALLED)
	$(BIN)/python -c 'import sphinx_gallery' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "the site: build/docs/index.html"

clean:
	rm -rf $(VENV) build dist demo docs/gallery docs/generated .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "fwnet needs Python 3.11 or newer, found no $(PYTHON); set PYTHON=…"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fwnet needs Python 3.11 or newer, got $$($(PYTHON) --version 2>&1); set PYTHON=…"; exit 2; }
	@echo "installing fwnet and what it needs into $(VENV), about 2.5 GB: this takes some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
