"""API keys: create, verify, replace and revoke.

A key is `rk_`, its public id, `_` and a secret of 256 random bits. Only a hash of the secret is
stored. The secret is random, so a plain SHA-256 hash is enough.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from recollect.errors import InvalidInput
from recollect.language.text import storable
from recollect.serve.identity.principal import READ, SCOPES, WRITE
from recollect.store.api_keys import ApiKey, ApiKeys, no_key

_KEY = re.compile(r"rk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOOLSET = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_NO_HASH = bytes(32)
MAX_GRACE = timedelta(days=90)
VALID, BEING_REPLACED, REPLACED, EXPIRED, REVOKED = (
    "valid",
    "being replaced",
    "replaced",
    "expired",
    "revoked",
)


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
    text, key = _make_key(
        ApiKey(
            id="",
            hash=_NO_HASH,
            user=user,
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            toolsets=toolsets,
            agent=agent,
            created_at=now,
            expires_at=expires_at,
        )
    )
    keys.add(key)
    return text, key


def _make_key(properties: ApiKey) -> tuple[str, ApiKey]:
    """A key with these properties, a new id and a new secret."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return f"rk_{id}_{secret}", replace(properties, id=id, hash=_hash(secret))


def check(keys: ApiKeys, text: str) -> ApiKey | None:
    """The key with this text, or None if it is unknown, revoked or expired."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    id, secret = match.groups()
    key = keys.find(id)
    expected_hash = _NO_HASH  # always compare, so that timing does not reveal known ids
    if key is not None:
        expected_hash = key.hash
    is_correct = hmac.compare_digest(_hash(secret), expected_hash)
    if key is None or not is_correct or not is_valid(key):
        return None
    return key


def is_valid(key: ApiKey) -> bool:
    """Whether a key is neither revoked nor expired."""
    if key.revoked_at is not None:
        return False
    return key.expires_at is None or key.expires_at > datetime.now(UTC)


def key_state(key: ApiKey, successor: str | None = None) -> str:
    """`valid`, `being replaced`, `replaced`, `expired` or `revoked`.

    `successor` is the id of the key that replaces it.
    """
    if key.revoked_at is not None:
        return REVOKED
    if successor is not None and key.expires_at is not None:
        if is_valid(key):
            return BEING_REPLACED
        return REPLACED
    if is_valid(key):
        return VALID
    return EXPIRED


def rotate(
    keys: ApiKeys, name_or_id: str, grace: timedelta = timedelta(0), user: str | None = None
) -> tuple[str, ApiKey, ApiKey]:
    """Replace a valid key with a new one that may do the same.

    The old key works until the end of the grace period. Returns the text of the new key, the new
    key, and the old one with its new expiry date. Raises NotFound or InvalidInput.
    """
    if not timedelta(0) <= grace <= MAX_GRACE:
        raise InvalidInput(f"The grace period must be from 0 to {MAX_GRACE.days} days.")
    old = _find_valid(keys, name_or_id, user)
    text, key = _make_key(replace(old, created_at=datetime.now(UTC), used_at=None))
    ends_at = datetime.now(UTC) + grace
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    keys.replace(old.id, key, ends_at)
    return text, key, replace(old, expires_at=ends_at)


def _find_valid(keys: ApiKeys, name_or_id: str, user: str | None) -> ApiKey:
    """The valid key with this id or name. Raises NotFound, or InvalidInput if there are several."""
    if not name_or_id.strip():
        raise no_key(name_or_id)
    replaced_ids = keys.replacements()
    candidates = []
    for key in keys.all_keys():
        if key.id == _public_id(name_or_id) and is_valid(key):
            return key
        is_named = key.name == name_or_id and user in (None, key.user)
        if is_named and is_valid(key) and key.id not in replaced_ids:
            candidates.append(key)
    if not candidates:
        raise no_key(name_or_id)
    if len(candidates) > 1:
        ids = ", ".join(key.id for key in candidates)
        raise InvalidInput(f"{len(candidates)} keys have this name. Use an id: {ids}.")
    return candidates[0]


def revoke(keys: ApiKeys, id: str) -> None:
    """Revoke a key, given its id or its whole text. Raises NotFound."""
    keys.revoke(_public_id(id), datetime.now(UTC))


def _public_id(text: str) -> str:
    """The id in a key's complete text, or the text if it is an id."""
    match = _KEY.fullmatch(text)
    if match is not None:
        return match[1]
    return text.removeprefix("rk_")


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _validate_names(user: str, name: str) -> None:
    if not user.strip() or len(user) > 500 or storable(user) != user:
        raise InvalidInput(
            "A user name must have 1 to 500 characters, not only spaces, and no NUL."
        )
    if len(name) > 200 or storable(name) != name:
        raise InvalidInput("A key's name must have at most 200 characters and no NUL.")
    if name:
        require_name(name)


def require_name(name: str) -> None:
    """Raise InvalidInput if the name of a key is blank."""
    if not name.strip():
        raise InvalidInput("A key needs a name that tells you what it is for.")


def _validate_permissions(scopes: Sequence[str], toolsets: Sequence[str] | None) -> None:
    if not scopes:
        raise InvalidInput(f"A key needs at least one scope. Scopes: {', '.join(SCOPES)}.")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(f"{scope!r} is not a scope. Scopes: {', '.join(SCOPES)}.")
    for toolset in toolsets or ():
        if not _TOOLSET.fullmatch(toolset):
            raise InvalidInput(f"{toolset!r} is not the name of a toolset. Use a-z, 0-9, - and _.")
