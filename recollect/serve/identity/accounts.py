"""API keys: create, verify and revoke.

A key is `rk_`, its public id, `_` and a secret of 256 random bits. Only a hash of the secret is
stored. The secret is random, so a plain SHA-256 hash is enough.
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
from recollect.serve.identity.principal import READ, SCOPES, WRITE
from recollect.store.api_keys import ApiKey, ApiKeys

_KEY = re.compile(r"rk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOOLSET = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_NO_HASH = bytes(32)


def new_key(
    keys: ApiKeys,
    user: str,
    name: str = "",
    scopes: Sequence[str] = (READ, WRITE),
    toolsets: Sequence[str] | None = None,
    agent: bool = False,
    expires_at: datetime | None = None,
) -> tuple[str, ApiKey]:
    """Create a key for a user. The returned text is the only copy of its secret."""
    _validate_names(user, name)
    _validate_permissions(scopes, toolsets)
    now = datetime.now(UTC)
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("The expiry date is in the past.")
    if toolsets is not None:
        toolsets = tuple(dict.fromkeys(toolsets))
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ApiKey(
        id=id,
        hash=_hash(secret),
        user=user,
        name=name,
        scopes=tuple(scope for scope in SCOPES if scope in scopes),
        toolsets=toolsets,
        agent=agent,
        created_at=now,
        expires_at=expires_at,
    )
    keys.add(key)
    return f"rk_{id}_{secret}", key


def check(keys: ApiKeys, text: str) -> ApiKey | None:
    """The key with this text, or None if it is unknown, revoked or expired."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    id, secret = match.groups()
    key = keys.find(id)
    expected_hash = _NO_HASH  # compare in any case, so that timing does not reveal known ids
    if key is not None:
        expected_hash = key.hash
    is_correct = hmac.compare_digest(_hash(secret), expected_hash)
    if key is None or not is_correct or key.revoked_at is not None:
        return None
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        return None
    return key


def revoke(keys: ApiKeys, id: str) -> None:
    """Revoke a key, given its id or its whole text. Raises NotFound."""
    match = _KEY.fullmatch(id)
    if match is not None:
        id = match[1]
    keys.revoke(id.removeprefix("rk_"), datetime.now(UTC))


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _validate_names(user: str, name: str) -> None:
    if not user or len(user) > 500 or storable(user) != user:
        raise InvalidInput("A user name must have 1 to 500 characters and no NUL.")
    if len(name) > 200 or storable(name) != name:
        raise InvalidInput("A key's name must have at most 200 characters and no NUL.")


def _validate_permissions(scopes: Sequence[str], toolsets: Sequence[str] | None) -> None:
    if not scopes:
        raise InvalidInput(f"A key needs at least one scope. Scopes: {', '.join(SCOPES)}.")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(f"{scope!r} is not a scope. Scopes: {', '.join(SCOPES)}.")
    for toolset in toolsets or ():
        if not _TOOLSET.fullmatch(toolset):
            raise InvalidInput(f"{toolset!r} is not the name of a toolset. Use a-z, 0-9, - and _.")
