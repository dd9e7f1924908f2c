.PHONY: test demo check format bench bench-quality bench-speed bench-teams soak clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

test: check
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

demo: $(READY)
	$(BIN)/python examples/demo.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m bench

bench-quality: $(READY)
	$(BIN)/python -m bench.quality

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
