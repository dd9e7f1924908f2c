"""Access to the service on behalf of one principal.

The edge authenticates every request before its body is read and stores the principal in the
request's state, with the policy that the route declares. A route asks for the library in terms of
what it wants to do with it. Nothing in a path, query, header or body can name another user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from recollect.errors import NotFound
from recollect.library import Library
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import BUS, READ, WRITE, Forbidden, Principal
from recollect.serve.threads import NO_THREAD

NO_CONVERSATION = "Conversation not found"


@dataclass(frozen=True, slots=True)
class Access:
    """The service, limited to what one principal may do."""

    service: Service
    principal: Principal
    request: Request

    def read(self, toolset: str | None = None) -> AbstractContextManager[Library]:
        """The principal's library, for reading. Raises Forbidden.

        The edge has checked the toolsets that the route declares. `toolset` is one that depends on
        the parameters.
        """
        return self._library(READ, toolset)

    def write(self, toolset: str | None = None) -> AbstractContextManager[Library]:
        """The principal's library, for writing. Raises Forbidden."""
        return self._library(WRITE, toolset)

    def require(self, scope: str, toolset: str | None = None) -> None:
        """Raise Forbidden unless the credential allows this."""
        self.principal.require(scope, toolset)

    def require_all_toolsets(self) -> None:
        """Raise Forbidden for a limited key: a change may concern any document, also a deleted one,
        of which nothing can be checked."""
        if self.principal.toolsets is not None:
            raise Forbidden("A key that is limited to some toolsets may not list or undo changes.")

    @property
    def request_id(self) -> str:
        return str(self.request.scope.get("state", {}).get("request_id", ""))

    def check_reach(self, library: Library, id: str) -> None:
        """Raise NotFound if the credential is limited to toolsets that do not include a document.

        A document that does not exist passes: the route reports it.
        """
        if self.principal.toolsets is None:
            return
        try:
            is_reachable = self.principal.can_reach(library.summary(id))
        except NotFound:
            return
        if not is_reachable:
            is_bus = BUS in self.request.state.policy.toolsets
            raise NotFound(NO_THREAD if is_bus else NO_CONVERSATION)

    @contextmanager
    def _library(self, scope: str, toolset: str | None) -> Iterator[Library]:
        self.require(scope, toolset)
        name = self.request.state.policy.document
        with self.service.libraries.borrow(self.principal.user) as library:
            if name:
                id = self.request.path_params.get(name) or self.request.query_params.get(name, "")
                self.check_reach(library, id)
            yield library


async def access(request: Request) -> Access:
    return Access(request.app.state.service, request.state.principal, request)


AccessTo = Annotated[Access, Depends(access)]
"""The first parameter of every route that needs a principal."""
