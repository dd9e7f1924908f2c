"""What tests of the service share: a service on each store, its app, a client, and keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from asgi import ADDRESS, MakeKey
from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.manage.accounts import new_key
from recollect.serve.app import make_app
from recollect.serve.service import Service, ServiceConfig
from recollect.settings import default_user
from recollect.settings import place as placed


@pytest.fixture
def config() -> ServiceConfig:
    """How the service of a test is set up; a test file may have another."""
    return ServiceConfig(rate_per_minute=0)


@pytest.fixture
def service(place: str, config: ServiceConfig) -> Iterator[Service]:
    """A service on the libraries of a test, once on every store, with no keys yet."""
    made = Service(placed(place), config)
    yield made
    made.drain()
    made.close()


@pytest.fixture
def app(service: Service) -> FastAPI:
    return make_app(service)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """Somebody on this computer. Without keys it is the default user; see `key`."""
    with TestClient(app, ADDRESS, follow_redirects=False, client=("127.0.0.1", 50_000)) as made:
        yield made


@pytest.fixture
def key(service: Service) -> MakeKey:
    """`key(("read",), user="ann", agent=True)`: make an API key; gives the headers that carry it. On PostgreSQL all
    tests share a database: a user is best named after the fixture `user`."""

    def make(
        scopes: Sequence[str] = ("read", "write"), user: str | None = None, **more: Any
    ) -> dict[str, str]:
        text, _ = new_key(service.keys, user or default_user(), "a test", scopes, **more)
        service.auth.keys_changed()
        return {"Authorization": f"Bearer {text}"}

    return make
