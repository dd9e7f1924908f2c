"""API keys as people see them: made once, shown once, checked, revoked.

A key is `rk_`, its public part, `_`, and 256 random bits. Only the hash of
those is kept; they are random, so a plain hash is enough.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

from recollect.errors import InvalidInput
from recollect.language.text import storable
from recollect.store.api_keys import ApiKey, ApiKeys

SCOPES = ("read", "write", "admin")
_KEY = re.compile(r"rk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOOLSET = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_NOBODY = bytes(32)


def new_key(
    keys: ApiKeys,
    user: str,
    name: str = "",
    scopes: Sequence[str] = ("read", "write"),
    toolsets: Sequence[str] | None = None,
    agent: bool = False,
    expires_at: datetime | None = None,
) -> tuple[str, ApiKey]:
    """Make a key for a user. The text returned is the only copy of its secret."""
    if not user or len(user) > 500 or storable(user) != user:
        raise InvalidInput("A user's name must have 1 to 500 characters, without NUL.")
    if unknown := set(scopes) - set(SCOPES):
        raise InvalidInput(f"{sorted(unknown)[0]!r} is no scope; use {', '.join(SCOPES)}.")
    if not scopes:
        raise InvalidInput(f"A key needs at least one scope of {', '.join(SCOPES)}.")
    if wrong := [t for t in toolsets or () if not _TOOLSET.fullmatch(t)]:
        raise InvalidInput(f"{wrong[0]!r} is no name of a toolset.")
    if len(name) > 200 or storable(name) != name:
        raise InvalidInput("The name of a key must have at most 200 characters, without NUL.")
    now = datetime.now(UTC)
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("The key would have expired already.")
    public, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ApiKey(
        id=public,
        hash=sha256(secret.encode()).digest(),
        user=user,
        name=name,
        scopes=tuple(s for s in SCOPES if s in scopes),
        toolsets=None if toolsets is None else tuple(dict.fromkeys(toolsets)),
        agent=agent,
        created_at=now,
        expires_at=expires_at,
    )
    keys.add(key)
    return f"rk_{public}_{secret}", key


def check(keys: ApiKeys, text: str) -> ApiKey | None:
    """The key that a text is; None where it is none, was revoked or has expired."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    key = keys.find(found[1])
    right = hmac.compare_digest(sha256(found[2].encode()).digest(), key.hash if key else _NOBODY)
    if key is None or not right or key.revoked_at is not None:
        return None
    return key if key.expires_at is None or key.expires_at > datetime.now(UTC) else None


def revoke(keys: ApiKeys, id: str) -> None:
    """Take a key back, by its public part or by the whole of it. Raises NotFound."""
    found = _KEY.fullmatch(id)
    keys.revoke(found[1] if found else id.removeprefix("rk_"), datetime.now(UTC))
