"""Fixtures for tests of the service: a service on each store, its app, a client and API keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import people
import pytest
from asgi import ADDRESS, MakeKey
from fastapi import FastAPI
from people import STORES, World
from starlette.testclient import TestClient

from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.settings import default_user
from recollect.settings import place as library_place


@pytest.fixture(scope="module", params=STORES)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A service on each store for all tests of a module."""
    with people.world(request, tmp_path_factory) as created:
        yield created


@pytest.fixture
def config() -> ServiceConfig:
    """The configuration of the service; a test file may override it."""
    return ServiceConfig(rate_per_minute=0)


@pytest.fixture
def service(place: str, config: ServiceConfig) -> Iterator[Service]:
    """A service on the libraries of the test, without any keys."""
    service = Service(library_place(place), config)
    yield service
    service.drain()
    service.close()


@pytest.fixture
def app(service: Service) -> FastAPI:
    return make_app(service)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A client on this computer. Without keys it is the default user; see `key`."""
    with TestClient(app, ADDRESS, follow_redirects=False, client=("127.0.0.1", 50_000)) as client:
        yield client


@pytest.fixture
def key(service: Service) -> MakeKey:
    """`key(("read",), user="ann", agent=True)` creates an API key and returns its headers.

    On PostgreSQL all tests share a database, so derive the names of users from the fixture `user`.
    """

    def create(
        scopes: Sequence[str] = ("read", "write"), user: str | None = None, **more: Any
    ) -> dict[str, str]:
        text, _ = new_key(service.keys, user or default_user(), "a test", scopes, **more)
        service.auth.keys_changed()
        return {"Authorization": f"Bearer {text}"}

    return create
