# Fairgate: everything a person or CI runs. `make help` lists it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format translations lock clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with the pinned, hash-checked dependencies

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "Fairgate needs Python 3.11 to 3.13, this is %d.%d: call make with PYTHON=python3.12, say." % v)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python3 cannot make a virtual environment: install the package python3-venv."; exit 1; }
	@echo "Installing the pinned dependencies into $(VENV) (once; about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP) ## run the main job: a whole onsale on the embedded stack (ARGS=--exit ends after the verdict)
	@$(BIN)/fairgate demo $(ARGS)

test: $(STAMP) ## run the tests (ARGS="-k name" picks some)
	@$(BIN)/python -m pytest -n 3 --dist loadgroup $(ARGS)

check: $(STAMP) ## what CI runs: format, lint, types, layers, then the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

format: $(STAMP) ## format the code and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

translations: $(STAMP) ## bring the waiting page's new words into its catalogs (then translate what is empty)
	@cd admission && ../$(BIN)/pybabel -q extract -F locale/babel.cfg --no-location -o messages.pot .
	@cd admission && ../$(BIN)/pybabel -q update -i messages.pot -d locale --ignore-obsolete --no-fuzzy-matching --width 110; rm messages.pot

lock: $(STAMP) ## renew requirements.lock from pyproject.toml (needs uv on the path)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --all-extras pyproject.toml -o requirements.lock

clean: ## remove the environment and the embedded stack's data
	rm -rf $(VENV) .fairgate
