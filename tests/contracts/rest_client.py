"""A client of the REST API that knows the state of the index."""

from __future__ import annotations

import states
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import new_key


class Client(TestClient):
    """A person or an agent with an API key."""

    def __init__(self, service: Service, app: ASGIApp, user: str, *, agent: bool = False) -> None:
        key, _ = new_key(service.keys, user, agent=agent)
        service.auth.keys_changed()
        headers = {"Authorization": f"Bearer {key}"}
        super().__init__(app, "http://127.0.0.1:8765", headers=headers)
        self._service = service
        self._user = user

    def settle(self) -> None:
        """Bring the user's library into the active state."""
        with self._service.libraries.borrow(self._user) as library:
            states.settle(library)
