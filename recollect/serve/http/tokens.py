"""JSON Web Tokens that others have signed: whose they are, and what they allow.

Which algorithm may be used follows from the kind of key, never from the token:
a public key is no secret, and a token without a signature is none.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from recollect import settings
from recollect.errors import InvalidInput, StoreUnavailable
from recollect.language.text import storable
from recollect.serve.http.access import READ, SCOPES, WRITE, Principal
from recollect.settings import LIMITS

log = logging.getLogger(__name__)

PublicKey = RSAPublicKey | EllipticCurvePublicKey
Fetch = Callable[[str], bytes]

LEAST_SECRET = 32
LEAST_RSA_BITS = 2048
SKEW_SECONDS = 30.0
REFETCH_SECONDS = 30.0
KEEP_SECONDS = 600.0
MOST_KEYS = 50
MOST_JWKS_BYTES = 1_000_000
_END_OF_TIME = 253_402_300_800  # the year 10000


class BadToken(Exception):
    """The token opens nothing."""


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Which tokens are accepted: none, unless there is a secret or there are keys."""

    secret: str = field(default="", repr=False)
    keys: str = ""
    """The address of a JWKS, or a file that holds a JWKS or a public key in PEM."""
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
        if self.secret and len(self.secret.encode()) < LEAST_SECRET:
            raise InvalidInput(
                f"RECOLLECT_JWT_SECRET must have at least {LEAST_SECRET} bytes: openssl rand -hex 32"
            )
        if self.secret.lstrip().startswith(("-----BEGIN", "ssh-", "{")):
            raise InvalidInput(
                "RECOLLECT_JWT_SECRET is a key, not a secret; name its file in RECOLLECT_JWT_KEYS."
            )


class Tokens:
    """Reads tokens. Blocks while keys are fetched."""

    def __init__(
        self,
        settings: JwtSettings,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        self._settings = settings
        self._now = now
        self._keyring = _keyring(settings.keys, clock, fetch or _fetched)

    def principal(self, token: str) -> Principal:
        """Whose token it is. Raises BadToken."""
        if len(token) > LIMITS.token_bytes:
            raise BadToken("too long")
        try:
            claims = self._claims(token)
            self._check_times(claims)
            return _principal(claims, token)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise BadToken(type(error).__name__) from error

    def _claims(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        if "crit" in header or "b64" in header:
            raise BadToken("asks for what is not understood")
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm == "HS256" and self._settings.secret:
            return self._decoded(token, self._settings.secret, "HS256")
        if algorithm not in ("RS256", "ES256") or not isinstance(kid, (str, type(None))):
            raise BadToken("algorithm")
        failed: Exception = BadToken("no such key")
        for key in self._keyring.find(kid, algorithm):
            try:
                return self._decoded(token, key, algorithm)
            except jwt.InvalidSignatureError as error:
                failed = error
        raise failed

    def _decoded(self, token: str, key: str | PublicKey, algorithm: str) -> dict[str, Any]:
        audience, issuer = self._settings.audience or None, self._settings.issuer or None
        demanded = ["exp", "sub", *(["aud"] if audience else []), *(["iss"] if issuer else [])]
        return jwt.decode(
            token,
            key,
            [algorithm],
            audience=audience,
            issuer=issuer,
            options={
                "require": demanded,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._now()
        if now >= _moment(claims["exp"]):
            raise BadToken("expired")
        for name in ("nbf", "iat"):
            if name in claims and _moment(claims[name]) > now + SKEW_SECONDS:
                raise BadToken("not valid yet")


def _moment(value: object) -> float:
    """Seconds since 1970. PyJWT would take text that looks like a number as well."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadToken("time")
    if not 0 <= value < _END_OF_TIME:
        raise BadToken("time")
    return value


def _principal(claims: Mapping[str, Any], token: str) -> Principal:
    user = claims["sub"]
    if not isinstance(user, str) or not 1 <= len(user) <= 500 or storable(user) != user:
        raise BadToken("sub")
    scopes, toolsets = _words(claims.get("scope")), _words(claims.get("toolsets"))
    return Principal(
        user=user,
        scopes=frozenset((READ, WRITE)) if scopes is None else scopes & frozenset(SCOPES),
        toolsets=toolsets,
        agent=claims.get("agent", False) is not False,
        credential=f"jwt-{sha256(token.encode()).hexdigest()[:12]}",
    )


def _words(value: object) -> frozenset[str] | None:
    if value is None:
        return None
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadToken("scope")
    return frozenset(words)


# -- keys ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Key:
    id: str | None
    algorithm: str
    key: PublicKey


class _FixedKeys:
    def __init__(self, keys: list[_Key]) -> None:
        self._keys = keys

    def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        return _fitting(self._keys, kid, algorithm)


class _FetchedKeys:
    """The keys at an address: kept for a while, and fetched again where a token names one that is not known."""

    def __init__(self, address: str, clock: Callable[[], float], fetch: Fetch) -> None:
        self._address = address
        self._clock = clock
        self._fetch = fetch
        self._keys: list[_Key] = []
        self._tried = -math.inf
        self._fetched = -math.inf
        self._fetching = threading.Lock()

    def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        wanted = (
            not _fitting(self._keys, kid, algorithm) or self._clock() - self._fetched > KEEP_SECONDS
        )
        due = self._clock() - self._tried > REFETCH_SECONDS
        if not self._keys or (wanted and due):  # without any, whoever fetches them is waited for
            self._refresh()
        if not self._keys:
            raise StoreUnavailable("The keys of tokens cannot be fetched.")
        return _fitting(self._keys, kid, algorithm)

    def _refresh(self) -> None:
        """Fetch, unless somebody is at it: then wait for that only where there is nothing to go on with."""
        if not self._fetching.acquire(blocking=not self._keys):
            return
        try:
            if self._clock() - self._tried <= REFETCH_SECONDS:
                return
            self._tried = self._clock()
            self._keys = _read_jwks(self._fetch(self._address))
            self._fetched = self._tried
        except Exception as error:
            log.warning("The keys of tokens could not be fetched: %s", type(error).__name__)
        finally:
            self._fetching.release()


def _fitting(keys: list[_Key], kid: str | None, algorithm: str) -> list[PublicKey]:
    return [
        k.key for k in keys if k.algorithm == algorithm and (kid is None or k.id in (None, kid))
    ]


def _keyring(source: str, clock: Callable[[], float], fetch: Fetch) -> _FixedKeys | _FetchedKeys:
    if not source:
        return _FixedKeys([])
    if re.match(r"https?://", source, re.IGNORECASE):
        if not source.lower().startswith("https://") and not _is_this_computer(source):
            raise InvalidInput(
                "RECOLLECT_JWT_KEYS must be an https:// address: whoever can change the keys can come in."
            )
        return _FetchedKeys(source, clock, fetch)
    try:
        content = Path(source).expanduser().read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"RECOLLECT_JWT_KEYS: the file cannot be read ({error.strerror})."
        ) from error
    try:
        keys = (
            _read_pem(content)
            if content.lstrip().startswith(b"-----BEGIN")
            else _read_jwks(content)
        )
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "RECOLLECT_JWT_KEYS holds neither a JWKS nor a public key in PEM."
        ) from error
    if not keys:
        raise InvalidInput(
            f"RECOLLECT_JWT_KEYS holds no key that can be used: RSA with at least {LEAST_RSA_BITS} bits, or P-256."
        )
    return _FixedKeys(keys)


def _is_this_computer(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _fetched(address: str) -> bytes:
    import httpx

    with httpx.stream("GET", address, timeout=5.0, follow_redirects=False) as response:
        response.raise_for_status()
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_JWKS_BYTES:
                raise ValueError("too long")
        return bytes(content)


def _read_pem(content: bytes) -> list[_Key]:
    key = load_pem_public_key(content)
    algorithm = _algorithm(key)
    return [_Key(None, algorithm, key)] if isinstance(key, PublicKey) and algorithm else []


def _read_jwks(content: bytes) -> list[_Key]:
    value = json.loads(content)
    listed = value.get("keys", [value]) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise ValueError("no JWKS")
    return [
        key
        for one in listed[:MOST_KEYS]
        if isinstance(one, dict) and (key := _read_jwk(one)) is not None
    ]


def _read_jwk(value: dict[str, Any]) -> _Key | None:
    """The key, if it is one for signatures and of a kind that is accepted."""
    if value.get("kty") not in ("RSA", "EC") or value.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK({name: part for name, part in value.items() if name != "alg"}).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    algorithm, kid = _algorithm(key), value.get("kid")
    if not isinstance(key, PublicKey) or not algorithm or value.get("alg", algorithm) != algorithm:
        return None
    return _Key(kid if isinstance(kid, str) else None, algorithm, key)


def _algorithm(key: object) -> str:
    """The one algorithm that a key may be used with."""
    if isinstance(key, RSAPublicKey) and key.key_size >= LEAST_RSA_BITS:
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return "ES256"
    return ""
