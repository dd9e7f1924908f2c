"""The principal of a request: whose library it uses, and what its credential allows.

And which tokens are accepted: verifying them takes modules that few servers need (see `tokens`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recollect import settings
from recollect.errors import InvalidInput, RecollectError
from recollect.model import sources
from recollect.model.audience import Audience
from recollect.model.documents import Summary
from recollect.model.kinds import CONVERSATION
from recollect.serve.masking import audience_of

READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)
CONVERSATIONS, BUS, KNOWLEDGE = "conversations", "bus", "knowledge"
"""The toolsets of routes. Those of MCP tools (`serve/mcp/toolsets.py`) include them."""
MIN_SECRET_BYTES = 32
LOCAL = "local"
"""The credential of requests that need none."""


class Forbidden(RecollectError):
    """The credential is valid but does not allow this."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request, as established by the edge from the credential alone."""

    user: str
    scopes: frozenset[str] = frozenset(SCOPES)
    toolsets: frozenset[str] | None = None
    """The groups of routes and tools the credential may use; None allows all of them."""
    agent: bool = False
    """Whether an agent uses the credential. Agents cannot read human-only messages."""
    credential: str = LOCAL
    """Names the API key or token in logs. It is not secret."""
    session: str = ""
    """The id of the console session, if the request belongs to one."""

    @property
    def audience(self) -> Audience:
        return audience_of(is_agent=self.agent)

    def require(self, scope: str, toolset: str | None = None) -> None:
        """Raise Forbidden unless the credential has the scope and may use the toolset."""
        if scope not in self.scopes:
            raise Forbidden(
                f"This key does not have the scope '{scope}'. Its scopes: {join(self.scopes)}."
            )
        if toolset is not None:
            self.require_toolset(toolset)

    def require_toolset(self, toolset: str) -> None:
        if not self.has_toolset(toolset):
            assert self.toolsets is not None
            raise Forbidden(
                f"This key may not use the toolset '{toolset}'. "
                f"Its toolsets: {join(self.toolsets)}."
            )

    def has_toolset(self, toolset: str) -> bool:
        return self.toolsets is None or toolset in self.toolsets

    def can_reach(self, document: Summary) -> bool:
        """Whether the toolsets include a document, on routes and tools for conversations.

        All of these routes and tools take the id of any document. `conversations` is for all
        conversations, `bus` only for the threads of the bus, `knowledge` for everything else.
        """
        if document.kind != CONVERSATION:
            return self.has_toolset(KNOWLEDGE)
        if self.has_toolset(CONVERSATIONS):
            return True
        return document.source == sources.BUS.name and self.has_toolset(BUS)


def join(names: frozenset[str]) -> str:
    if not names:
        return "none"
    return ", ".join(sorted(names))


class BadToken(Exception):
    """The token is not valid."""


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Which tokens are accepted. Without a secret or keys, none are."""

    secret: str = field(default="", repr=False)
    keys: str = ""
    """The URL of a JWKS, or a file with a JWKS or a public key in PEM."""
    audience: str = ""
    issuer: str = ""

    @classmethod
    def configured(cls) -> JwtSettings:
        return cls(
            settings.JWT_SECRET.get(),
            settings.JWT_KEYS.get(),
            settings.JWT_AUDIENCE.get(),
            settings.JWT_ISSUER.get(),
        )

    def __bool__(self) -> bool:
        return bool(self.secret or self.keys)

    def __post_init__(self) -> None:
        if self.secret and len(self.secret.encode()) < MIN_SECRET_BYTES:
            raise InvalidInput(
                f"RECOLLECT_JWT_SECRET must have at least {MIN_SECRET_BYTES} bytes. "
                "Create one with: openssl rand -hex 32"
            )
        if self.secret.lstrip().startswith(("-----BEGIN", "ssh-", "{")):
            raise InvalidInput(
                "RECOLLECT_JWT_SECRET contains a key, not a secret. "
                "Set RECOLLECT_JWT_KEYS to the name of the key's file instead."
            )
