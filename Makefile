# `make` prints this help. Everything runs in .venv, built from the locks on first use.
.DEFAULT_GOAL := help
PYTHON ?= python3.11
ifeq (, $(shell command -v $(PYTHON) 2>/dev/null))
PYTHON := python3
endif
BIN := .venv/bin
STAMP := .venv/.stamp
export UV_NO_PROGRESS := 1

.PHONY: help
help: ## This help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

.PHONY: venv
venv: $(STAMP) ## Build the environment in .venv from the locks

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the locked dependencies into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@PYTHONWARNINGS="ignore:Editable installation" $(BIN)/python -m pip install \
		--quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: $(STAMP) ## See it work: real servers, bookings that expire, messages in Kafka (about a minute)
	@$(BIN)/python -m dev.demo

.PHONY: up
up: $(STAMP) ## The same stack in the foreground with the real 60 s schedule; Ctrl-C stops it
	@$(BIN)/python -m dev.up

.PHONY: test
test: $(STAMP) ## The whole test suite, on servers that it starts itself
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

.PHONY: picture
picture: $(STAMP) ## docs/flower.png anew: Flower as the browser of the tests sees it
	@PICTURE=docs/flower.png $(BIN)/python -m pytest -q tests/system/test_flower.py -k figures

.PHONY: chaos
chaos: $(STAMP) ## Faults injected into the real stack under load, with a scorecard (ARGS="--short")
	@$(BIN)/python -m dev.chaos $(ARGS)

.PHONY: bench
bench: $(STAMP) ## How near to what the servers can do, as ratios (ARGS="--short", "--only drain")
	@$(BIN)/python -m dev.bench $(ARGS)

.PHONY: check
check: $(STAMP) ## Formatter, linter, types, import contracts, secrets, locks; changes nothing
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo > .venv/import-contracts.txt || { cat .venv/import-contracts.txt; exit 1; }
	@cp .secrets.baseline .venv/secrets.baseline
	@$(BIN)/detect-secrets-hook --baseline .venv/secrets.baseline $$(git ls-files) > .venv/secrets.txt || \
		[ $$? -eq 3 ] || { cat .venv/secrets.txt; exit 1; } # 3: a known one has moved to another line
	@for lock in runtime dev; do \
		cp requirements/$$lock.lock .venv/$$lock.lock && \
		$(MAKE) --no-print-directory lock-$$lock OUT=.venv/$$lock.lock && \
		diff -q requirements/$$lock.lock .venv/$$lock.lock > /dev/null || \
		{ echo "requirements/$$lock.lock does not follow from pyproject.toml: run make lock"; exit 1; }; \
	done
	@echo "All checks passed."

.PHONY: audit
audit: $(STAMP) ## Look the locked dependencies up among known vulnerabilities (asks PyPI)
	@$(BIN)/pip-audit --disable-pip --requirement requirements/runtime.lock

.PHONY: format
format: $(STAMP) ## Format and fix what can be fixed
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

.PHONY: lock
lock: $(STAMP) ## Bring the locks up to pyproject.toml; UPGRADE=1 takes the newest versions
	@$(MAKE) --no-print-directory lock-runtime OUT=requirements/runtime.lock
	@$(MAKE) --no-print-directory lock-dev OUT=requirements/dev.lock

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header $(if $(UPGRADE),--upgrade) pyproject.toml --extra monitoring --extra tracing

.PHONY: lock-runtime lock-dev
lock-runtime:
	@$(COMPILE) --output-file $(OUT) > /dev/null
lock-dev:
	@$(COMPILE) --group dev --output-file $(OUT) > /dev/null

.PHONY: clean
clean: ## Remove the environment, caches and the data of `make up`
	@rm -rf .venv .run build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
