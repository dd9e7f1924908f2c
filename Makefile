.PHONY: test demo check browser clients format bench bench-knowledge bench-mcp bench-memory bench-quality bench-service bench-speed bench-teams soak clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Half of the time is waiting, for browsers, servers and disks: so there are two processes for every core.
test: check browser
	$(BIN)/python -m pytest -n $$($(BIN)/python -c "import os; print(2 * os.cpu_count())") --dist worksteal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The console is tested in a real browser: it is installed where that may be done, and asked for elsewhere.
browser:
	@command -v chromium >/dev/null || test "$$RECOLLECT_SKIP_BROWSER" = 1 || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing chromium (once)" && \
	  { apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 || \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; }; }; } || \
	echo "There is no chromium, so the tests of the console will fail. Install it (apt install chromium), or set RECOLLECT_SKIP_BROWSER=1 to leave them out."

# Real MCP clients: the inspector, the conformance suite, the TypeScript SDKs, Claude Code and Codex, from the npm registry.
clients: $(READY)
	$(BIN)/python tests/clients/run.py

demo: $(READY)
	$(BIN)/python examples/demo.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m bench

bench-knowledge: $(READY)
	$(BIN)/python -m bench.knowledge

bench-mcp: $(READY)
	$(BIN)/python -m bench.mcp

bench-memory: $(READY)
	$(BIN)/python -m bench.memory

bench-quality: $(READY)
	$(BIN)/python -m bench.quality

bench-service: $(READY)
	$(BIN)/python -m bench.service

bench-speed: $(READY)
	$(BIN)/python -m bench.speed

bench-teams: $(READY)
	$(BIN)/python -m bench.teams

soak: $(READY)
	KILLS=1000 $(BIN)/python -m pytest tests/test_crash.py tests/test_power_loss.py tests/test_move.py tests/store/test_postgres_connections.py -n auto

$(READY): pyproject.toml
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
