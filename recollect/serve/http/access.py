"""Who asks, and what they may do: what every route is given instead of a user's name.

The edge (see serve.edge, serve.auth) finds out who asks before a body is read,
and puts a Principal into the request's state. A route asks for the library by
what it wants to do with it; nothing in a path, query, header or body can name
another user.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from recollect.errors import RecollectError
from recollect.library import Library

if TYPE_CHECKING:
    from recollect.serve.http.service import Service

READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)


class Forbidden(RecollectError):
    """The credential is good, and does not allow this."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `credential` names the key or token in logs and limits; it is no secret."""

    user: str
    scopes: frozenset[str] = frozenset(SCOPES)
    toolsets: frozenset[str] | None = None
    """The groups of routes and tools that may be used; None means all."""
    agent: bool = False
    """An agent does not see what only people may see: such contents are masked."""
    credential: str = "local"


@dataclass(frozen=True, slots=True)
class Access:
    """The service as one principal may use it."""

    service: Service
    principal: Principal
    request: Request

    def read(self, toolset: str = "conversations") -> AbstractContextManager[Library]:
        """The principal's library, for reading."""
        return self._library(READ, toolset)

    def write(self, toolset: str = "conversations") -> AbstractContextManager[Library]:
        return self._library(WRITE, toolset)

    def demand(self, scope: str, toolset: str | None = None) -> None:
        """Raise Forbidden unless the credential allows this."""
        if scope not in self.principal.scopes:
            raise Forbidden(
                f"This key may not {scope}: it has the scopes {', '.join(sorted(self.principal.scopes))}."
            )
        allowed = self.principal.toolsets
        if toolset is not None and allowed is not None and toolset not in allowed:
            raise Forbidden(
                f"This key may not use {toolset}: it is for {', '.join(sorted(allowed))}."
            )

    def _library(self, scope: str, toolset: str) -> AbstractContextManager[Library]:
        self.demand(scope, toolset)
        return self.service.libraries.borrow(self.principal.user)


async def _access(request: Request) -> Access:
    return Access(request.app.state.service, request.state.principal, request)


AccessTo = Annotated[Access, Depends(_access)]
"""What a route declares as its first parameter."""
