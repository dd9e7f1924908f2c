"""Authentication: find the API key or token in a request, and the user it belongs to.

While the server listens on this computer only and there are neither API keys nor JWT settings,
requests need no credential and belong to the default user. Once there is a key, every request needs
one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

from recollect.errors import (
    NotFound,
    ReadOnlyLibrary,
    RecollectError,
    StorageFull,
    StoreBusy,
    StoreUnavailable,
)
from recollect.serve.http import logs
from recollect.serve.http.hosts import client_network, is_loopback
from recollect.serve.http.limits import Buckets
from recollect.serve.http.responses import RETRY_SECONDS, Problem
from recollect.serve.identity.accounts import (
    check,
    check_session,
    cookie_values,
    new_session,
    principal_of,
)
from recollect.serve.identity.principal import BadToken, JwtSettings, Principal
from recollect.settings import LIMITS, default_user
from recollect.store.api_keys import ApiKeys, KeysUnavailable, Session

FAILURES_PER_MINUTE = 30
KEY_CHECK_SECONDS = 1.0
"""How often to check whether the first API key was created."""
FAILURE_LOG_SECONDS = 60.0
"""How often to log that the keys cannot be read."""
MAX_VALID_CREDENTIALS = 1_024
THREADS = 8
_INVALID = "This key or token is invalid: it is unknown, revoked or expired."

T = TypeVar("T")
RawHeaders = Sequence[tuple[bytes, bytes]]


class Unauthorized(Problem):
    """The credential is missing or invalid."""

    def __init__(self, message: str, *, invalid: bool = True) -> None:
        challenge = 'Bearer realm="recollect"'
        if invalid:
            challenge += ', error="invalid_token"'
        super().__init__(401, message, headers={"WWW-Authenticate": challenge})
        self.invalid = invalid
        """Whether a credential was sent at all."""


class Authenticator:
    def __init__(
        self,
        keys: ApiKeys,
        jwt: JwtSettings,
        host: str,
        user: str = "",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._tokens: Tokens | None = None
        if jwt:
            from recollect.serve.identity.tokens import Tokens

            self._tokens = Tokens(jwt, now, clock)
        self._user = user
        self._clock = clock
        self._is_required = bool(jwt) or not is_loopback(host)
        self._keys_checked_at = -math.inf
        self._failure_logged_at = -math.inf
        self._valid: OrderedDict[bytes, None] = OrderedDict()
        """Hashes of credentials that were valid. They are exempt from the limit on failures."""
        self._failures = Buckets(FAILURES_PER_MINUTE, clock)
        self._threads = ThreadPoolExecutor(THREADS, "recollect-auth")

    async def authenticate(self, headers: RawHeaders, peer: str) -> tuple[Principal, str | None]:
        """The principal of a request, and its credential (None if none is required).

        `peer` is the address of the client. Raises Unauthorized, or Problem 429 after too many
        failures.
        """
        if not await self.is_required():
            return Principal(self._user or default_user()), None
        text = credential(headers)
        if text is None:
            raise Unauthorized(
                "This request needs an API key. Send it as 'Authorization: Bearer KEY' or "
                "'X-API-Key: KEY'.",
                invalid=False,
            )
        return await self.admit(text, peer), text

    async def admit(self, text: str, peer: str) -> Principal:
        """The principal of a credential. Failures count against the peer."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        network = client_network(peer)
        if digest not in self._valid:
            wait = self._failures.wait(network)
            if wait:
                raise Problem(
                    429,
                    "Too many invalid credentials from this address. Try again later.",
                    retry_after=math.ceil(wait),
                )
        try:
            principal = await self._in_thread(lambda: self.identify(text))
        except Unauthorized:
            self._valid.pop(digest, None)
            self._failures.take(network)
            raise
        self._valid[digest] = None
        self._valid.move_to_end(digest)
        if len(self._valid) > MAX_VALID_CREDENTIALS:
            self._valid.popitem(last=False)
        return principal

    async def is_still_valid(self, principal: Principal, text: str) -> bool:
        """Whether a credential is still valid and still belongs to the same principal."""
        try:
            return await self._in_thread(lambda: self.identify(text)) == principal
        except (Problem, RecollectError):
            return False

    def identify(self, text: str) -> Principal:
        """The principal of a credential. Keys are read every time, so revoking takes effect at
        once. Raises Unauthorized."""
        if len(text) <= LIMITS.token_bytes:
            if text.startswith("rk_"):
                key = check(self._keys, text)
                if key is not None:
                    return principal_of(key, key.id)
            elif text.startswith("rs_"):
                principal = check_session(self._keys, text)
                if principal is not None:
                    return principal
            elif self._tokens is not None:
                try:
                    return self._tokens.principal(text)
                except BadToken as error:
                    raise Unauthorized(_INVALID) from error
        raise Unauthorized(_INVALID)

    async def log_in(
        self, text: str, address: str, user_agent: str, old_session: str = ""
    ) -> tuple[str, Session]:
        """Exchange an API key or token for a session, and end the browser's last one. Raises
        Problem."""
        if text.startswith("rs_"):
            raise Unauthorized("Enter an API key or a token.")
        principal = await self.admit(text, address)

        def start() -> tuple[str, Session]:
            if old_session:
                with suppress(StorageFull, ReadOnlyLibrary):  # then it ends when it expires
                    self.log_out(old_session)
            is_key = text.startswith("rk_")
            expires_at = None if is_key or self._tokens is None else self._tokens.expiry(text)
            return new_session(
                self._keys,
                principal,
                key_id=principal.credential if is_key else "",
                expires_at=expires_at,
                user_agent=user_agent,
                address=address,
            )

        return await self._in_thread(start)

    def log_out(self, text: str) -> None:
        """End a session, given the text in its cookie."""
        principal = check_session(self._keys, text)
        if principal is not None:
            with suppress(NotFound):  # another request was faster
                self._keys.end_session(principal.session)

    async def is_required(self) -> bool:
        """Whether requests need a credential. Once they do, they always will."""
        if self._is_required:
            return True
        if self._clock() - self._keys_checked_at >= KEY_CHECK_SECONDS:
            self._is_required = await self._in_thread(self._keys.has_any)
            self._keys_checked_at = self._clock()
        return self._is_required

    def keys_changed(self) -> None:
        """A key was created: check for keys again with the next request."""
        self._keys_checked_at = -math.inf

    def close(self) -> None:
        self._threads.shutdown()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run work that uses the stored keys. If they cannot be used, nobody is let in."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (StoreBusy, StorageFull, ReadOnlyLibrary):
            raise  # keys can be read
        except RecollectError as error:
            reason = "they cannot be read"
            if isinstance(error, KeysUnavailable):
                reason = error.reason
            elif isinstance(error, StoreUnavailable):
                reason = "the database cannot be reached"
            if self._clock() - self._failure_logged_at > FAILURE_LOG_SECONDS:
                self._failure_logged_at = self._clock()
                logs.error(error, "API keys unavailable")
            raise Problem(
                503, f"The server cannot check API keys: {reason}.", retry_after=RETRY_SECONDS
            ) from error


def credential(headers: RawHeaders) -> str | None:
    """The credential of a request, or None. Raises Unauthorized if there are two different ones."""
    credentials: set[str] = set()
    cookies: list[str] = []
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"authorization":
            scheme, _, token = text.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise Unauthorized("Send the API key as 'Authorization: Bearer KEY'.")
            credentials.add(token.strip())
        elif name == b"x-api-key":
            credentials.add(text)
        elif name == b"cookie":
            cookies.append(text)
    sessions = cookie_values(cookies)
    if any(text.startswith("rs_") for text in credentials):
        raise Unauthorized("A session is valid in the console's cookie only. Send an API key.")
    if not all(text.startswith("rs_") for text in sessions):
        raise Unauthorized("The console's cookie holds no session. Log in again.")
    credentials |= sessions
    if len(credentials) > 1:
        raise Unauthorized("This request has two different credentials. Send only one.")
    return next(iter(credentials), None)
