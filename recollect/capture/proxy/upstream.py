"""The model that answers: a service that speaks OpenAI's protocol, named by RECOLLECT_MODEL.

What is said leaves this machine, so nothing is asked unless that is set. A key
goes to that address alone: never over an open connection, never after a
redirect, never into a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from recollect import settings
from recollect.capture.proxy.recording import Recorder
from recollect.capture.proxy.tape import READABLE
from recollect.errors import RecollectError
from recollect.models.openai_client import Server

SETTING = "RECOLLECT_MODEL"
TIMEOUT = httpx.Timeout(600.0, connect=10.0, write=60.0, pool=10.0)
_CONNECTIONS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0)

_OF_ONE_CONNECTION = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    )
)
# What is said to this server, or about the way to it.
_NOT_SENT = _OF_ONE_CONNECTION | {
    "host",
    "content-length",
    "cookie",
    "authorization",
    "x-api-key",
    "origin",
    "referer",
    "expect",
    "forwarded",
    "x-real-ip",
    "via",
    "accept-encoding",
    "priority",
    "dnt",
}
_NOT_SENT_BEGINNINGS = ("x-recollect-", "x-forwarded-", "sec-", "cf-", "access-control-")
# What would speak about this server's pages, or is said by this server itself.
_NOT_RETURNED = _OF_ONE_CONNECTION | {
    "set-cookie",
    "server",
    "date",
    "strict-transport-security",
    "alt-svc",
    "nel",
    "report-to",
    "reporting-endpoints",
    "clear-site-data",
    "service-worker-allowed",
    "refresh",
    "content-security-policy",
    "referrer-policy",
    "content-security-policy-report-only",
    "x-frame-options",
    "x-content-type-options",
    "permissions-policy",
}
_NOT_RETURNED_BEGINNINGS = ("access-control-", "cross-origin-", "x-recollect-")

Raw = Iterable[tuple[bytes, bytes]]
Headers = list[tuple[bytes, bytes]]


class NoAnswer(RecollectError):
    """The model's server gave no answer at all."""

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late
        """Whether it was waited for in vain, as opposed to not reached."""


class Upstream:
    """A model's server. Nothing is asked of it until it is needed."""

    def __init__(
        self,
        address: str,
        model: str = "",
        key: str | None = None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> None:
        """`address` is what `/chat/completions` is put after."""
        self._server = Server.parse(address, key, SETTING, "/chat/completions")
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.model = model
        """The model that is asked where nobody names one."""
        self.recorder = Recorder()

    def __repr__(self) -> str:
        return f"Upstream({self._server.name}, {self.model!r})"

    @classmethod
    def configured(cls) -> Upstream | None:
        """What the settings name."""
        said = settings.MODEL.get()
        if not said:
            return None
        address, _, model = said.partition("#")
        return cls(address, model, settings.MODEL_KEY.get() or None)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes = b"",
        query: str = "",
    ) -> httpx.Response:
        """An answer whose body has not been read; it must be closed. Raises NoAnswer."""
        request = httpx.Request(
            method, self._server.url(path, query), headers=list(headers), content=body or None
        )
        try:
            return await self._connections().send(request, stream=True)
        except httpx.TransportError as error:
            raise no_answer(error) from error

    async def read(
        self, path: str, headers: Headers, body: bytes, most: int
    ) -> tuple[httpx.Response, bytes]:
        """An answer to a POST with its body, as it came. Raises NoAnswer, also for more than `most` bytes."""
        response = await self.ask("POST", path, headers, body)
        data = bytearray()
        try:
            async for piece in response.aiter_raw():
                data += piece
                if len(data) > most:
                    raise NoAnswer("The model's server answered with too much.")
        except httpx.TransportError as error:
            raise no_answer(error) from error
        finally:
            await response.aclose()
        return response, bytes(data)

    def headers(self, given: Raw, *, local: bool) -> Headers:
        """A client's headers, as the model's server may see them.

        Its own Authorization is passed on only where it is not this server's (`local`: here nobody needs a key), no
        key is configured, and the connection is not open to others.
        """
        sent: Headers = []
        named = _named(given)
        own = b""
        accepted = ""
        for name, value in given:
            key = name.decode("latin-1").lower()
            if key == "authorization":
                own = value
            elif key == "accept-encoding":
                accepted += "," + value.decode("latin-1")
            if (
                key not in _NOT_SENT
                and key not in named
                and not key.startswith(_NOT_SENT_BEGINNINGS)
            ):
                sent.append((name, value))
        sent.append((b"Accept-Encoding", _encodings(accepted).encode()))
        if self._server.key:
            sent = [h for h in sent if h[0].lower() != b"api-key"]
            sent.append((b"Authorization", f"Bearer {self._server.key}".encode()))
        elif (
            own and local and not own.lower().startswith(b"bearer rk_") and self._server.is_private
        ):
            sent.append((b"Authorization", own))
        return sent

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def hidden(self, text: str) -> str:
        """A text of the model's server without the key, which some servers repeat."""
        return self._server.hide_key(text)

    def _connections(self) -> httpx.AsyncClient:
        """The connections, which belong to the event loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
            self._client = httpx.AsyncClient(
                timeout=self._timeout,
                limits=_CONNECTIONS,
                cookies=no_cookies,
                trust_env=not self._server.is_loopback,
            )
            self._loop = loop
        return self._client


def no_answer(error: httpx.TransportError) -> NoAnswer:
    if isinstance(error, httpx.ReadTimeout):
        return NoAnswer("The model's server did not answer in time.", late=True)
    if isinstance(error, httpx.PoolTimeout):
        return NoAnswer("Too many requests wait for the model's server.", late=True)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return NoAnswer("The model's server could not be reached.")
    return NoAnswer("The model's server broke off the connection.")


def returned(response: httpx.Response) -> Headers:
    """The headers of an answer, as a client may see them."""
    named = _named(response.headers.raw)
    found: Headers = []
    for name, value in response.headers.raw:
        key = name.decode("latin-1").lower()
        if (
            key not in _NOT_RETURNED
            and key not in named
            and not key.startswith(_NOT_RETURNED_BEGINNINGS)
        ):
            found.append((name.lower(), value))
    return found


def _named(headers: Raw) -> set[str]:
    """The headers that Connection declares to be for one connection only."""
    values = [value.decode("latin-1") for name, value in headers if name.lower() == b"connection"]
    return {token.strip().lower() for value in values for token in value.split(",")}


def _encodings(accepted: str) -> str:
    """Those encodings a client takes that can be recorded too."""
    wanted = [part.strip() for part in accepted.split(",")]
    return (
        ", ".join(p for p in wanted if p.partition(";")[0].strip().lower() in READABLE)
        or "identity"
    )
