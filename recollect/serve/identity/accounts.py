"""API keys, and the sessions of the console, whose cookie holds no key.

A key is `rk_`, its public id, `_` and a secret of 256 random bits. Only a hash of the secret is
stored. The secret is random, so a plain SHA-256 hash is enough.

Logging in exchanges a key or token for a random session id, of which only a hash is stored. A
session may do what its key may do at that moment: it ends when the key is revoked or expires.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import IPv4Address, ip_address

from recollect.errors import InvalidInput
from recollect.language.text import storable, truncate
from recollect.serve.http.hosts import is_loopback
from recollect.serve.identity.principal import READ, SCOPES, WRITE, Principal
from recollect.store.api_keys import ApiKey, ApiKeys, Session, no_key

_KEY = re.compile(r"rk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TOOLSET = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_NO_HASH = bytes(32)
SECURE_COOKIE = "__Host-recollect_session"
"""The cookie over HTTPS. With this prefix, browsers accept it from this host over HTTPS only."""
PLAIN_COOKIE = "recollect_session"
"""The cookie over HTTP, as on this computer."""
SESSION_DAYS = 30
MAX_USER_AGENT = 200
MAX_GRACE = timedelta(days=90)
VALID, EXPIRED, REVOKED = "valid", "expired", "revoked"
BEING_REPLACED, REPLACED = "being replaced", "replaced"


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
    validate_names(user, name)
    validate_permissions(scopes, toolsets)
    now = datetime.now(UTC)
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("The expiry date is in the past.")
    if toolsets is not None:
        toolsets = tuple(dict.fromkeys(toolsets))
    scopes = tuple(scope for scope in SCOPES if scope in scopes)
    text, key = make_key(ApiKey("", _NO_HASH, user, name, scopes, toolsets, agent, now, expires_at))
    keys.add(key)
    return text, key


def make_key(properties: ApiKey) -> tuple[str, ApiKey]:
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
    # Always compare, so that timing does not reveal known ids.
    is_correct = hmac.compare_digest(_hash(secret), _NO_HASH if key is None else key.hash)
    return key if key is not None and is_correct and is_valid(key) else None


def is_valid(key: ApiKey) -> bool:
    """Whether a key is neither revoked nor expired."""
    is_expired = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return key.revoked_at is None and not is_expired


def key_state(key: ApiKey, successor: str | None = None) -> str:
    """`valid`, `being replaced`, `replaced`, `expired` or `revoked`.

    `successor` is the id of the key that replaces it.
    """
    if key.revoked_at is not None:
        return REVOKED
    if successor is not None and key.expires_at is not None:
        return BEING_REPLACED if is_valid(key) else REPLACED
    return VALID if is_valid(key) else EXPIRED


def rotate(
    keys: ApiKeys, name_or_id: str, grace: timedelta = timedelta(0), user: str | None = None
) -> tuple[str, ApiKey, ApiKey]:
    """Replace a valid key with a new one that may do the same.

    The old key works until the end of the grace period. Returns the text of the new key, the new
    key, and the old one with its new expiry date. Raises NotFound or InvalidInput.
    """
    if not timedelta(0) <= grace <= MAX_GRACE:
        raise InvalidInput(f"The grace period must be from 0 to {MAX_GRACE.days} days.")
    old = find_valid(keys, name_or_id, user)
    text, key = make_key(replace(old, created_at=datetime.now(UTC), used_at=None))
    ends_at = datetime.now(UTC) + grace
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    keys.replace(old.id, key, ends_at)
    return text, key, replace(old, expires_at=ends_at)


def find_valid(keys: ApiKeys, name_or_id: str, user: str | None) -> ApiKey:
    """The valid key with this id or name. Raises NotFound, or InvalidInput if there are several."""
    valid = [key for key in keys.all_keys() if is_valid(key)]
    for key in valid:
        if key.id == public_id(name_or_id):
            return key
    replaced_ids = keys.replacements()
    named = [
        key
        for key in valid
        if key.name == name_or_id and user in (None, key.user) and key.id not in replaced_ids
    ]
    if not named or not name_or_id.strip():
        raise no_key(name_or_id)
    if len(named) > 1:
        ids = ", ".join(key.id for key in named)
        raise InvalidInput(f"{len(named)} keys have this name. Use an id: {ids}.")
    return named[0]


def revoke(keys: ApiKeys, id: str) -> None:
    """Revoke a key, given its id or its whole text. Raises NotFound."""
    keys.revoke(public_id(id), datetime.now(UTC))


def public_id(text: str) -> str:
    """The id in a key's complete text, or the text if it is an id."""
    match = _KEY.fullmatch(text)
    return match[1] if match else text.removeprefix("rk_")


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def validate_names(user: str, name: str) -> None:
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


def validate_permissions(scopes: Sequence[str], toolsets: Sequence[str] | None) -> None:
    if not scopes:
        raise InvalidInput(f"A key needs at least one scope. Scopes: {', '.join(SCOPES)}.")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(f"{scope!r} is not a scope. Scopes: {', '.join(SCOPES)}.")
    for toolset in toolsets or ():
        if not _TOOLSET.fullmatch(toolset):
            raise InvalidInput(f"{toolset!r} is not the name of a toolset. Use a-z, 0-9, - and _.")


# -- sessions of the console ---


def new_session(
    keys: ApiKeys,
    principal: Principal,
    *,
    key_id: str = "",
    expires_at: datetime | None = None,
    user_agent: str = "",
    address: str = "",
) -> tuple[str, Session]:
    """Start a session for a principal. The returned text is the only copy of its secret.

    `key_id` names the API key; without one, the session has a copy of the token's permissions.
    """
    now = datetime.now(UTC)
    ends_at = now + timedelta(days=SESSION_DAYS)
    if expires_at is not None:
        ends_at = min(ends_at, expires_at)
    toolsets = None
    if principal.toolsets is not None:
        toolsets = tuple(sorted(principal.toolsets))
    text = f"rs_{secrets.token_urlsafe(32)}"
    session = Session(
        id=secrets.token_hex(6),
        hash=_hash(text),
        key=key_id,
        user=principal.user,
        scopes=tuple(sorted(principal.scopes)),
        toolsets=toolsets,
        agent=principal.agent,
        credential=principal.credential,
        created_at=now,
        used_at=now,
        expires_at=ends_at,
        user_agent=truncate(storable(user_agent), MAX_USER_AGENT),
        address=shorten_address(address),
    )
    keys.add_session(session)
    return text, session


def check_session(keys: ApiKeys, text: str) -> Principal | None:
    """The principal of a session, or None if it is unknown or over."""
    if not text.startswith("rs_"):
        return None
    session = keys.find_session(_hash(text))
    if session is None or session.expires_at <= datetime.now(UTC):
        return None
    permissions: ApiKey | Session | None = session
    if session.key:
        key = keys.find(session.key)
        permissions = key if key is not None and is_valid(key) else None
    if permissions is None:
        return None
    return principal_of(permissions, session.credential, session.id)


def principal_of(permissions: ApiKey | Session, credential: str, session: str = "") -> Principal:
    """What a key or session may do."""
    toolsets = None if permissions.toolsets is None else frozenset(permissions.toolsets)
    scopes = frozenset(permissions.scopes)
    return Principal(permissions.user, scopes, toolsets, permissions.agent, credential, session)


def live_sessions(keys: ApiKeys, user: str | None = None) -> list[Session]:
    """The sessions that have not ended, of one user or of all, most recently used first."""
    valid_keys = {key.id for key in keys.all_keys() if is_valid(key)}
    sessions = keys.all_sessions()
    if user is not None:
        sessions = [session for session in sessions if session.user == user]
    return [session for session in sessions if not session.key or session.key in valid_keys]


def shorten_address(address: str) -> str:
    """The network of an address, which says where somebody is but not who."""
    if is_loopback(address):
        return "this computer"
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, IPv4Address):
        return address.rpartition(".")[0] + ".0/24"
    if parsed.ipv4_mapped:
        return shorten_address(str(parsed.ipv4_mapped))
    prefix = ":".join(parsed.exploded.split(":")[:3])
    return f"{prefix}::/48"


def cookie_values(headers: Sequence[str]) -> set[str]:
    """The values of our cookie in Cookie headers.

    Only this host can set the secure one, so it counts if there are both.
    """
    values: dict[str, set[str]] = {SECURE_COOKIE: set(), PLAIN_COOKIE: set()}
    for part in ";".join(headers).split(";"):
        name, _, value = part.partition("=")
        value = value.strip().strip('"')
        if value and name.strip() in values:
            values[name.strip()].add(value)
    return values[SECURE_COOKIE] or values[PLAIN_COOKIE]
