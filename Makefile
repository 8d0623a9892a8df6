# One environment, made on first use. `make demo` needs only the light core; `make test` adds the development tools.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help setup demo test check faults soak audit coverage fmt docs site browser clean

help:            ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml lab/pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[dev]' -e './lab[dev]'
	@touch $@ $(VENV)/.core

setup: $(VENV)/.dev  ## everything for development, in .venv

demo: $(VENV)/.core  ## check bundled real examples and write a page to look at
	@mkdir -p out
	@$(BIN)/veridical check examples/demo.jsonl --html out/demo.html; code=$$?; \
	  [ $$code -eq 1 ] || { echo "the demo should flag something; it ended with $$code"; exit 1; }
	@echo
	@echo "The same as a page: out/demo.html"

check: $(VENV)/.dev  ## lint and types only (seconds)
	$(BIN)/ruff check src lab tests benchmarks examples notebooks
	$(BIN)/ruff format --check src lab tests benchmarks examples notebooks
	$(BIN)/mypy

test: check      ## lint, types, all tests (architecture and docs among them)
	$(BIN)/python -m pytest -n auto

faults: $(VENV)/.dev  ## inject faults: kills, full disks, hostile clients, documents and servers (about 25 minutes, Linux)
	$(PIP) -c constraints.txt -e '.[dev,faults]' -e './lab[dev]'
	$(BIN)/python -m tests.faults --write

soak: $(VENV)/.dev  ## an hour at twice the rate that the service can serve (MINUTES=60)
	$(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),60)

audit: $(VENV)/.dev  ## known vulnerabilities of what is installed (needs the internet)
	$(PIP) -c constraints.txt -e '.[dev,faults]' -e './lab[dev]'
	$(BIN)/python -m pip_audit --skip-editable

coverage: $(VENV)/.dev  ## which lines the tests run (twice as slow as the tests alone)
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered

fmt: $(VENV)/.dev  ## format and fix what can be fixed
	$(BIN)/ruff check --fix src lab tests benchmarks examples notebooks
	$(BIN)/ruff format src lab tests benchmarks examples notebooks

docs: $(VENV)/.dev  ## rewrite the generated parts of the docs (command help, tables)
	$(BIN)/python -m tests.docs_generated --write

site: $(VENV)/.dev  ## the documentation as a site, in out/site
	$(BIN)/zensical build --clean --strict
	@echo "look at it: $(BIN)/python -m http.server --directory out/site --bind 127.0.0.1"

browser: $(VENV)/.dev  ## reports and the page in a real headless Chromium (needs a chromium binary; npm for axe-core)
	$(PIP) -c constraints.txt -e '.[dev,e2e]' -e './lab[dev]'
	@mkdir -p out
	@[ -f out/axe.min.js ] || (cd out && npm pack --silent axe-core@4 && tar -xzf axe-core-*.tgz package/axe.min.js && \
	  mv package/axe.min.js . && rmdir package && rm axe-core-*.tgz) || echo "without axe-core: npm could not fetch it"
	AXE=$$(ls $(CURDIR)/out/axe.min.js 2>/dev/null) $(BIN)/python -m pytest -m browser -rs tests/report tests/server

clean:           ## remove everything that was made
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov dist build
