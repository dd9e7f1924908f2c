"""JSON Web Tokens signed by another system: which user they are for and what they allow.

The algorithm follows from the type of the key, never from the token. Otherwise an attacker could
use a public key as an HMAC secret, or send a token without a signature.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from recollect.configuration import expand_path
from recollect.errors import InvalidInput, StoreUnavailable
from recollect.language.text import storable
from recollect.serve.http.hosts import is_loopback
from recollect.serve.identity.principal import READ, SCOPES, WRITE, BadToken, JwtSettings, Principal
from recollect.settings import LIMITS

log = logging.getLogger(__name__)

PublicKey = RSAPublicKey | EllipticCurvePublicKey
Key = tuple[str | None, str, PublicKey]
"""Its id, its one algorithm, and the key."""

MIN_RSA_BITS = 2048
CLOCK_SKEW_SECONDS = 30.0
RETRY_SECONDS = 30.0
MAX_AGE_SECONDS = 600.0
MAX_KEYS = 50
MAX_JWKS_BYTES = 1_000_000
FETCH_TIMEOUT_SECONDS = 5.0
_YEAR_10000 = 253_402_300_800
_INVALID = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


class Tokens:
    """Verifies tokens. Blocks while keys are fetched."""

    def __init__(
        self,
        settings: JwtSettings,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._now = now
        self._keyring = Keyring(settings.keys, clock)

    def principal(self, token: str) -> Principal:
        """The principal of a token. Raises BadToken."""
        if len(token) > LIMITS.token_bytes:
            raise BadToken("too long")
        try:
            claims = self._verify(token)
            now = self._now()
            if now >= timestamp(claims["exp"]):
                raise BadToken("expired")
            for name in ("nbf", "iat"):
                if name in claims and timestamp(claims[name]) > now + CLOCK_SKEW_SECONDS:
                    raise BadToken("not valid yet")
            user = claims["sub"]
            if not isinstance(user, str) or not 1 <= len(user) <= 500 or storable(user) != user:
                raise BadToken("invalid sub")
            scopes = word_set(claims.get("scope"))
            return Principal(
                user=user,
                scopes=frozenset((READ, WRITE)) if scopes is None else scopes & frozenset(SCOPES),
                toolsets=word_set(claims.get("toolsets")),
                agent=claims.get("agent", False) is not False,
                credential=f"jwt-{sha256(token.encode()).hexdigest()[:12]}",
            )
        except _INVALID as error:
            raise BadToken(type(error).__name__) from error

    def expiry(self, token: str) -> datetime:
        """When a token expires. Raises BadToken."""
        try:
            return datetime.fromtimestamp(timestamp(self._verify(token)["exp"]), UTC)
        except _INVALID as error:
            raise BadToken(type(error).__name__) from error

    def _verify(self, token: str) -> dict[str, Any]:
        """Verify the signature and return the claims."""
        header = jwt.get_unverified_header(token)
        if "crit" in header or "b64" in header:
            raise BadToken("requires an unsupported extension")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm == "HS256" and self._settings.secret:
            return self._decode(token, self._settings.secret, "HS256")
        if algorithm not in ("RS256", "ES256") or not isinstance(key_id, (str, type(None))):
            raise BadToken("unsupported algorithm")
        failure: Exception = BadToken("unknown key")
        for key in self._keyring.find(key_id, algorithm):
            try:
                return self._decode(token, key, algorithm)
            except jwt.InvalidSignatureError as error:
                failure = error
        raise failure

    def _decode(self, token: str, key: str | PublicKey, algorithm: str) -> dict[str, Any]:
        settings = self._settings
        required = ["exp", "sub"]
        if settings.audience:
            required.append("aud")
        if settings.issuer:
            required.append("iss")
        # We check the times ourselves: PyJWT accepts strings, and its leeway applies to `exp`.
        options: Any = {"require": required}
        options |= {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        return jwt.decode(
            token,
            key,
            [algorithm],
            audience=settings.audience or None,
            issuer=settings.issuer or None,
            options=options,
        )


def timestamp(value: object) -> float:
    """Seconds since 1970. Only numbers are accepted, not text that looks like one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _YEAR_10000:
        return value
    raise BadToken("invalid time")


def word_set(value: object) -> frozenset[str] | None:
    """A claim that is a list of words, or one string of words separated by spaces."""
    if value is None:
        return None
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadToken("invalid scope or toolsets")
    return frozenset(words)


# -- keys ---


class Keyring:
    """The keys of a file, or of a URL: those are cached, and fetched again when they are old or a
    token names an unknown key."""

    def __init__(self, source: str, clock: Callable[[], float]) -> None:
        self._url = ""
        self._keys: list[Key] = []
        self._clock = clock
        self._attempted_at = -math.inf
        self._fetched_at = -math.inf
        self._lock = threading.Lock()
        scheme = source.lower().partition("://")[0]
        if scheme in ("http", "https"):
            if scheme == "http" and not is_loopback(urlsplit(source).hostname or ""):
                raise InvalidInput(
                    "RECOLLECT_JWT_KEYS must be an https:// URL: anyone who can change the keys in "
                    "transit could sign tokens."
                )
            self._url = source
        elif source:
            self._keys = load_file(source)

    def find(self, key_id: str | None, algorithm: str) -> list[PublicKey]:
        """The keys for an algorithm. A token or key without an id matches any."""

        def matching() -> list[PublicKey]:
            return [
                key
                for id, kind, key in self._keys
                if kind == algorithm and (key_id is None or id in (None, key_id))
            ]

        if self._url:
            if self._clock() - self._fetched_at > MAX_AGE_SECONDS or not matching():
                self._refresh()
            if not self._keys:
                raise StoreUnavailable("The keys that verify tokens cannot be fetched.")
        return matching()

    def _refresh(self) -> None:
        """Fetch the keys. Wait for a fetch in another thread only if there are no keys yet."""
        if not self._lock.acquire(blocking=not self._keys):
            return
        try:
            if self._clock() - self._attempted_at <= RETRY_SECONDS:
                return
            self._attempted_at = self._clock()
            self._keys = parse_jwks(fetch(self._url))
            self._fetched_at = self._attempted_at
        except Exception as error:  # whatever is wrong with the reply, the old keys stay in use
            log.warning("Cannot fetch the keys that verify tokens: %s", type(error).__name__)
        finally:
            self._lock.release()


def load_file(name: str) -> list[Key]:
    try:
        content = expand_path(name).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"RECOLLECT_JWT_KEYS: cannot read the file ({error.strerror})."
        ) from error
    try:
        if content.lstrip().startswith(b"-----BEGIN"):
            keys = usable(None, load_pem_public_key(content))
        else:
            keys = parse_jwks(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "RECOLLECT_JWT_KEYS: the file contains neither a JWKS nor a public key in PEM."
        ) from error
    if not keys:
        raise InvalidInput(
            "RECOLLECT_JWT_KEYS: the file contains no usable key. "
            f"Use RSA with at least {MIN_RSA_BITS} bits, or P-256."
        )
    return keys


def fetch(url: str) -> bytes:
    stream = httpx.stream("GET", url, timeout=FETCH_TIMEOUT_SECONDS, follow_redirects=False)
    with stream as response:
        response.raise_for_status()
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MAX_JWKS_BYTES:
                raise ValueError("too long")
        return bytes(content)


def parse_jwks(content: bytes) -> list[Key]:
    """The signature keys of a JWKS, or of one key, that are of a supported type."""
    value = json.loads(content)
    if isinstance(value, dict):
        value = value.get("keys", [value])
    if not isinstance(value, list):
        raise ValueError("not a JWKS")
    keys: list[Key] = []
    for item in value[:MAX_KEYS]:
        if isinstance(item, Mapping) and item.get("use", "sig") == "sig":
            try:
                key = jwt.PyJWK({name: part for name, part in item.items() if name != "alg"}).key
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                continue
            found = usable(item.get("kid"), key)
            keys += [key for key in found if item.get("alg", key[1]) == key[1]]
    return keys


def usable(id: object, key: object) -> list[Key]:
    """A key with the one algorithm that it may be used with; nothing if it is not supported."""
    name = id if isinstance(id, str) else None
    if isinstance(key, RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return [(name, "RS256", key)]
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return [(name, "ES256", key)]
    return []
