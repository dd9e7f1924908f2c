"""Sessions of the console: what its cookie holds instead of an API key.

Logging in exchanges a key or token for a random session id, of which only a hash is stored. A
session may do what its key may do at that moment: it ends when the key is revoked or expires.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import IPv4Address, ip_address

from recollect.language.text import storable, truncate
from recollect.serve.http.checks.hosts import is_loopback
from recollect.serve.identity.accounts import is_valid
from recollect.serve.identity.principal import Principal
from recollect.store.api_keys import ApiKey, ApiKeys, Session

SECURE_COOKIE = "__Host-recollect_session"
"""The cookie over HTTPS. With this prefix, browsers accept it from this host over HTTPS only."""
PLAIN_COOKIE = "recollect_session"
"""The cookie over HTTP, as on this computer."""
SESSION_DAYS = 30
MAX_USER_AGENT = 200

_SESSION = re.compile(r"rs_[A-Za-z0-9_-]{43}")


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
    if not _SESSION.fullmatch(text):
        return None
    session = keys.find_session(_hash(text))
    if session is None or session.expires_at <= datetime.now(UTC):
        return None
    if not session.key:
        return _principal(session, session)
    key = keys.find(session.key)
    if key is None or not is_valid(key):
        return None
    return _principal(key, session)


def _principal(permissions: ApiKey | Session, session: Session) -> Principal:
    toolsets = None
    if permissions.toolsets is not None:
        toolsets = frozenset(permissions.toolsets)
    return Principal(
        permissions.user,
        frozenset(permissions.scopes),
        toolsets,
        permissions.agent,
        session.credential,
        session.id,
    )


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
    secure_values, plain_values = set(), set()
    for header in headers:
        for part in header.split(";"):
            name, _, value = part.partition("=")
            value = value.strip().strip('"')
            if value and name.strip() == SECURE_COOKIE:
                secure_values.add(value)
            elif value and name.strip() == PLAIN_COOKIE:
                plain_values.add(value)
    return secure_values or plain_values


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()
