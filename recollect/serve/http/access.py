"""Access to the service on behalf of one principal.

The edge authenticates every request before its body is read and stores the principal in the
request's state. A route asks for the library in terms of what it wants to do with it. Nothing in a
path, query, header or body can name another user.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from recollect.library import Library
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import READ, WRITE, Principal

CONVERSATIONS = "conversations"
"""The toolset of routes that name no other."""


@dataclass(frozen=True, slots=True)
class Access:
    """The service, limited to what one principal may do."""

    service: Service
    principal: Principal
    request: Request

    def read(self, toolset: str = CONVERSATIONS) -> AbstractContextManager[Library]:
        """The principal's library, for reading. Raises Forbidden."""
        return self._library(READ, toolset)

    def write(self, toolset: str = CONVERSATIONS) -> AbstractContextManager[Library]:
        """The principal's library, for writing. Raises Forbidden."""
        return self._library(WRITE, toolset)

    def require(self, scope: str, toolset: str | None = None) -> None:
        """Raise Forbidden unless the credential allows this."""
        self.principal.require(scope, toolset)

    @property
    def request_id(self) -> str:
        return str(self.request.scope.get("state", {}).get("request_id", ""))

    def _library(self, scope: str, toolset: str) -> AbstractContextManager[Library]:
        self.require(scope, toolset)
        return self.service.libraries.borrow(self.principal.user)


async def _access(request: Request) -> Access:
    return Access(request.app.state.service, request.state.principal, request)


AccessTo = Annotated[Access, Depends(_access)]
"""The first parameter of every route that needs a principal."""
