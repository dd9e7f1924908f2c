"""The model server: a service with OpenAI's API, configured by RECOLLECT_MODEL.

Messages leave this machine, so nothing is sent unless the setting is set. The key is sent only to
that address: never over an unencrypted connection, never after a redirect, never in a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from recollect import settings
from recollect.capture.model_answers import READABLE_ENCODINGS
from recollect.capture.recording import Recorder
from recollect.errors import RecollectError
from recollect.models.openai_client import Server

if TYPE_CHECKING:
    import httpx  # a server without a model does not need it

SETTING = "RECOLLECT_MODEL"

_HOP_BY_HOP = frozenset(
    (
        "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
        " trailers transfer-encoding upgrade"
    ).split()
)
# Headers for this server, or about the way to it.
_BLOCKED_REQUEST_HEADERS = _HOP_BY_HOP | set(
    (
        "host content-length cookie authorization x-api-key origin referer expect forwarded"
        " x-real-ip via accept-encoding priority dnt"
    ).split()
)
_BLOCKED_REQUEST_PREFIXES = ("x-recollect-", "x-forwarded-", "sec-", "cf-", "access-control-")
# Headers that would affect the pages of this server, or that this server sets itself.
_BLOCKED_RESPONSE_HEADERS = _HOP_BY_HOP | set(
    (
        "set-cookie server date strict-transport-security alt-svc nel report-to"
        " reporting-endpoints clear-site-data service-worker-allowed refresh"
        " content-security-policy referrer-policy content-security-policy-report-only"
        " x-frame-options x-content-type-options permissions-policy"
    ).split()
)
_BLOCKED_RESPONSE_PREFIXES = ("access-control-", "cross-origin-", "x-recollect-")

RawHeaders = Iterable[tuple[bytes, bytes]]
Headers = list[tuple[bytes, bytes]]


class NoAnswer(RecollectError):
    """The model server did not answer."""

    def __init__(self, message: str, *, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout


class Upstream:
    """A model server. Connections are opened when they are needed."""

    def __init__(
        self,
        address: str,
        model: str = "",
        key: str | None = None,
        timeout: httpx.Timeout | None = None,
    ) -> None:
        """`address` is the base URL, to which `/chat/completions` is appended."""
        self._server = Server.parse(address, key, SETTING, "/chat/completions")
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.model = model
        """The model for requests that name none."""
        self.recorder = Recorder()

    def __repr__(self) -> str:
        return f"Upstream({self._server.name}, {self.model!r})"

    @classmethod
    def from_settings(cls) -> Upstream | None:
        value = settings.MODEL.get()
        if not value:
            return None
        address, _, model = value.partition("#")
        return cls(address, model, settings.MODEL_KEY.get() or None)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes = b"",
        query: str = "",
    ) -> httpx.Response:
        """Send a request. The body of the response is not read, and the caller must close it.

        Raises NoAnswer.
        """
        import httpx

        request = httpx.Request(
            method, self._server.url(path, query), headers=list(headers), content=body or None
        )
        try:
            return await self._open_client().send(request, stream=True)
        except httpx.TransportError as error:
            raise no_answer(error) from error

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The raw body of a response as it arrives. Raises NoAnswer. Closes the response."""
        import httpx

        try:
            async for data in response.aiter_raw():
                yield data
        except httpx.TransportError as error:
            raise no_answer(error) from error
        finally:
            await response.aclose()

    def request_headers(self, client_headers: RawHeaders, *, local: bool) -> Headers:
        """The headers of a client that the model server may see.

        The Authorization of the client is forwarded only if it is not meant for this server
        (`local`: this server needs no key), no key is configured, and the connection is private.
        """
        headers: Headers = []
        connection_headers = _connection_headers(client_headers)
        authorization = b""
        encodings = ""
        for name, value in client_headers:
            key = name.decode("latin-1").lower()
            if key == "authorization":
                authorization = value
            elif key == "accept-encoding":
                encodings += "," + value.decode("latin-1")
            blocked = _BLOCKED_REQUEST_HEADERS | connection_headers
            if key not in blocked and not key.startswith(_BLOCKED_REQUEST_PREFIXES):
                headers.append((name, value))
        headers.append((b"Accept-Encoding", readable_encodings(encodings).encode()))
        if self._server.key:
            headers = [(name, value) for name, value in headers if name.lower() != b"api-key"]
            headers.append((b"Authorization", f"Bearer {self._server.key}".encode()))
        is_own = authorization.lower().startswith(b"bearer rk_")
        if not self._server.key and local and self._server.is_private and not is_own:
            headers += [(b"Authorization", authorization)] if authorization else []
        return headers

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def hide_key(self, text: str) -> str:
        """A text from the model server without the key, which some servers repeat."""
        return self._server.hide_key(text)

    def _open_client(self) -> httpx.AsyncClient:
        """The client of this event loop: connections belong to the loop that opened them."""
        import httpx

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            from http.cookiejar import CookieJar, DefaultCookiePolicy

            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
            self._client = httpx.AsyncClient(
                timeout=self._timeout or httpx.Timeout(600.0, connect=10.0, write=60.0, pool=10.0),
                limits=httpx.Limits(
                    max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0
                ),
                cookies=no_cookies,
                trust_env=not self._server.is_loopback,
            )
            self._loop = loop
        return self._client


def no_answer(error: httpx.TransportError) -> NoAnswer:
    import httpx

    if isinstance(error, httpx.ReadTimeout):
        return NoAnswer("The model's server did not answer in time.", is_timeout=True)
    if isinstance(error, httpx.PoolTimeout):
        return NoAnswer("Too many requests wait for the model's server.", is_timeout=True)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return NoAnswer("The model's server could not be reached.")
    return NoAnswer("The model's server broke off the connection.")


def response_headers(response: httpx.Response) -> Headers:
    """The headers of a response that a client may see."""
    connection_headers = _connection_headers(response.headers.raw)
    headers: Headers = []
    for name, value in response.headers.raw:
        key = name.decode("latin-1").lower()
        blocked = _BLOCKED_RESPONSE_HEADERS | connection_headers
        if key not in blocked and not key.startswith(_BLOCKED_RESPONSE_PREFIXES):
            headers.append((name.lower(), value))
    return headers


def _connection_headers(headers: RawHeaders) -> set[str]:
    """The names of the headers that the header Connection declares hop-by-hop."""
    values = [value.decode("latin-1") for name, value in headers if name.lower() == b"connection"]
    return {token.strip().lower() for value in values for token in value.split(",")}


def readable_encodings(accept_encoding: str) -> str:
    """The encodings that the client accepts and that can be recorded."""
    names = [part.strip() for part in accept_encoding.split(",")]
    readable = [n for n in names if n.partition(";")[0].strip().lower() in READABLE_ENCODINGS]
    return ", ".join(readable) or "identity"
