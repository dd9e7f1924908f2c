"""Who asks: an API key or a token, in whichever header it comes.

On this computer alone, and while there is no key and no setting for tokens,
nobody needs one: everybody is the default user. From the first key on
everybody does.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from recollect.errors import RecollectError
from recollect.serve.accounts import check
from recollect.serve.http.access import Principal
from recollect.serve.http.errors import Problem
from recollect.serve.http.limits import Buckets
from recollect.serve.http.tokens import BadToken, JwtSettings, Tokens
from recollect.settings import LIMITS, default_user
from recollect.store.api_keys import Keys

__all__ = ["COOKIE", "Authenticator", "JwtSettings", "Unauthorized", "credential", "is_loopback"]

COOKIE = "recollect_key"
FAILURES_A_MINUTE = 30
KEYS_LOOKED_FOR_EVERY = 1.0  # seconds
MOST_GOOD = 1_024

T = TypeVar("T")
Headers = Sequence[tuple[bytes, bytes]]


class Unauthorized(Problem):
    def __init__(self, message: str, *, wrong: bool = True) -> None:
        challenge = 'Bearer realm="recollect"' + (', error="invalid_token"' if wrong else "")
        super().__init__(401, message, headers={"WWW-Authenticate": challenge})
        self.wrong = wrong
        """Whether a credential was tried, as opposed to none."""


class Authenticator:
    def __init__(
        self,
        keys: Keys,
        jwt: JwtSettings,
        host: str,
        user: str = "",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._tokens = Tokens(jwt, now, clock) if jwt else None
        self._user = user
        self._clock = clock
        self._always = bool(jwt) or not is_loopback(host)
        self._looked = -math.inf
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._failures = Buckets(FAILURES_A_MINUTE, FAILURES_A_MINUTE, clock)
        self._threads = ThreadPoolExecutor(8, "recollect-auth")

    async def authenticate(self, headers: Headers, peer: str) -> tuple[Principal, str | None]:
        """Who sent these headers, and the credential that says so (None where none is needed). `peer` is the
        address that the connection came from. Raises Unauthorized, or Problem 429 after many failures."""
        if not await self.needed():
            return Principal(self._user or default_user()), None
        text = credential(headers)
        if text is None:
            raise Unauthorized(
                "This needs a key: Authorization: Bearer KEY, or X-API-Key: KEY.", wrong=False
            )
        return await self.admit(text, peer), text

    async def admit(self, text: str, peer: str) -> Principal:
        """Whose credential it is; failures are counted against the peer."""
        mark, peer = sha256(text.encode("utf-8", "surrogatepass")).digest(), _network(peer)
        if mark not in self._good and (wait := self._failures.wait(peer)):
            raise Problem(
                429, "Too many wrong keys came from this address.", retry_after=math.ceil(wait)
            )
        try:
            principal = await self._in_thread(lambda: self.identify(text))
        except Unauthorized:
            self._good.pop(mark, None)
            self._failures.take(peer)
            raise
        self._good[mark] = None
        self._good.move_to_end(mark)
        if len(self._good) > MOST_GOOD:
            self._good.popitem(last=False)
        return principal

    async def still(self, principal: Principal, text: str) -> bool:
        """Whether a credential that was good is so still, for the same."""
        try:
            return await self._in_thread(lambda: self.identify(text)) == principal
        except (Unauthorized, RecollectError):
            return False

    def identify(self, text: str) -> Principal:
        """Whose credential it is, asked of the keys each time: a revoked one opens nothing from then on."""
        if len(text) <= LIMITS.token_bytes:
            if text.startswith("rk_"):
                key = check(self._keys, text)
                if key is not None:
                    toolsets = None if key.toolsets is None else frozenset(key.toolsets)
                    return Principal(key.user, frozenset(key.scopes), toolsets, key.agent, key.id)
            elif self._tokens is not None:
                try:
                    return self._tokens.principal(text)
                except BadToken:
                    pass
        raise Unauthorized(
            "This key or token is not valid: it is unknown, was revoked, or has expired."
        )

    async def needed(self) -> bool:
        """Whether a credential is needed. It is from the first key on, for good."""
        if not self._always and self._clock() - self._looked >= KEYS_LOOKED_FOR_EVERY:
            self._always = await self._in_thread(self._keys.any)
            self._looked = self._clock()
        return self._always

    def keys_changed(self) -> None:
        """A key was made here: look for it at the next request."""
        self._looked = -math.inf

    def close(self) -> None:
        self._threads.shutdown()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def credential(headers: Headers) -> str | None:
    """The one credential in a request; None where there is none. Raises Unauthorized where there are two."""
    found: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"authorization":
            scheme, _, token = text.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise Unauthorized("Send the key as Authorization: Bearer KEY.")
            found.add(token.strip())
        elif name == b"x-api-key":
            found.add(text)
        elif name == b"cookie":
            found |= cookies(text)
    if len(found) > 1:
        raise Unauthorized("There are two credentials in this request. Send one.")
    return found.pop() if found else None


def cookies(text: str) -> set[str]:
    """The values of our cookie."""
    if COOKIE not in text:
        return set()
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return {
        value.strip().strip('"')
        for name, _, value in pairs
        if name.strip() == COOKIE and value.strip()
    }


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _network(peer: str) -> str:
    """What one party can be expected to have: an IPv4 address, or 2^64 addresses of IPv6."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(address.ipv4_mapped or int(address) >> 64)
