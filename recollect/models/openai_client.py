"""A client for servers with OpenAI's HTTP API: OpenAI, Ollama, vLLM, llama.cpp and others.

`Server` is the address and the key of a server, `Client` sends blocking requests to it. Requests
send the user's texts to another program, so nothing is sent unless a setting names an address.
The key goes to that address only: never over an unencrypted connection, never to the target of a
redirect, and never into an error message.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import printable, truncate

ERROR_BYTES = 65_536
"""How much of an error response is read."""
ERROR_LENGTH = 300
"""How many characters of it are shown."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "User-Agent": "recollect",
}


class StatusError(RecollectError):
    """The server answered with an HTTP status other than success."""

    def __init__(self, server: str, status: int, detail: str, headers: Any) -> None:
        super().__init__(f"{server} answered {status}: {detail}")
        self.status = status
        self.detail = detail
        """The server's own error message; may be empty."""
        self.location = headers.get("Location", "")
        self.retry_after = _parse_retry_after(headers.get("Retry-After"))


class ConnectionFailed(RecollectError):
    """The server could not be reached, or the connection broke."""

    def __init__(self, server: str, detail: str) -> None:
        super().__init__(f"{server} could not be reached: {detail}")
        self.detail = detail


class UntrustedCertificate(ConnectionFailed):
    """The server has no certificate that this machine trusts."""


# -- the server ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server and the key for it."""

    parts: SplitResult
    key: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, address: str, key: str | None, setting: str, endpoint: str) -> Server:
        """Parse the value of a setting. A path that ends with the endpoint is accepted.

        Raises InvalidInput if the address or the key is not valid.
        """
        parts = _parse_address(address, setting)
        parts = parts._replace(path=parts.path.rstrip("/").removesuffix(endpoint))
        return cls(parts, _validate_key(key, parts, setting))

    @property
    def name(self) -> str:
        """The address as error messages show it."""
        return f"{self.parts.scheme}://{self.parts.netloc}{self.parts.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine."""
        return _is_loopback(self.parts)

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read what is sent to the server."""
        return self.parts.scheme == "https" or self.is_loopback

    def url(self, path: str, query: str = "") -> str:
        queries = [q for q in (self.parts.query, query) if q]
        parts: SplitResult = self.parts._replace(
            path=self.parts.path + path, query="&".join(queries), fragment=""
        )
        return parts.geturl()

    def hide_key(self, text: str) -> str:
        """A text without the key, which some servers repeat in their responses."""
        if not self.key:
            return text
        return text.replace(self.key, "***")

    def describe(self, text: str) -> str:
        """A server's own words for an error message: short, printable and without the key."""
        return truncate(self.hide_key(" ".join(printable(text).split())), ERROR_LENGTH)


def _parse_address(address: str, setting: str) -> SplitResult:
    address = address.strip()
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not address.isascii() or not address.isprintable() or " " in address:
        raise InvalidInput(
            f"{setting} is not an http(s) address. Use one like http://127.0.0.1:11434/v1#model."
        )
    if "@" in parts.netloc:
        raise InvalidInput(f"{setting} contains a password. Put the API key into {setting}_KEY.")
    return parts


def _validate_key(key: str | None, parts: SplitResult, setting: str) -> str | None:
    key = (key or "").strip()
    if not key:
        return None
    # http.client shows an invalid header value in its error message, so keys are validated first.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(
            f"{setting}_KEY is not a valid key: it contains a space, a line break or another "
            "character that keys cannot have."
        )
    if parts.scheme == "http" and not _is_loopback(parts):
        raise InvalidInput(
            f"The key would be sent to {parts.netloc} unencrypted. Use an https:// address in "
            f"{setting}, or leave {setting}_KEY empty."
        )
    return key


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# -- requests ------------------------------------------------------------------


class Client:
    """Sends blocking POST requests to one endpoint of a server."""

    def __init__(self, server: Server, endpoint: str, timeout: float) -> None:
        self._server = server
        self._url = server.url(endpoint)
        self._timeout = timeout
        handlers: list[Any] = [_NoRedirects()]
        if server.is_loopback:
            handlers.append(urllib.request.ProxyHandler({}))  # no proxy for this machine
        self._opener = urllib.request.build_opener(*handlers)

    def post(self, body: Any, max_bytes: int) -> bytes:
        """Send JSON and return the body of the response.

        Raises StatusError, ConnectionFailed, or RecollectError if the response is too large.
        """
        request = urllib.request.Request(  # noqa: S310
            self._url, data=json.dumps(body).encode(), headers=_HEADERS, method="POST"
        )
        if self._server.key:
            request.add_unredirected_header("Authorization", f"Bearer {self._server.key}")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return self._read(response, max_bytes)
        except urllib.error.HTTPError as error:
            with error:
                raise self._status_error(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._connection_error(error) from None

    def _read(self, response: http.client.HTTPResponse, max_bytes: int) -> bytes:
        body = response.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise RecollectError(
                f"{self._server.name} answered with more than {max_bytes:,} bytes."
            )
        if response.length:  # a bounded read does not report missing bytes itself
            raise http.client.IncompleteRead(body, response.length)
        return body

    def _status_error(self, error: urllib.error.HTTPError) -> StatusError:
        try:
            text = error.read(ERROR_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            text = ""
        detail = self._server.describe(error_message(text))
        return StatusError(self._server.name, error.code, detail, error.headers)

    def _connection_error(self, error: Exception) -> ConnectionFailed:
        reason: object = error
        if isinstance(error, urllib.error.URLError):
            reason = error.reason
        detail = self._server.describe(str(reason) or type(reason).__name__)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return UntrustedCertificate(self._server.name, detail)
        return ConnectionFailed(self._server.name, detail)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: they would drop the body or send it to another host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> None:
        return None


def error_message(text: str) -> str:
    """The message in an error response, in the shapes that servers use; else the whole text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail")
    if isinstance(value, str):
        return value
    return text


def _parse_retry_after(value: str | None) -> float | None:
    """The seconds of a Retry-After header, which is a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    if not math.isfinite(seconds):
        return None
    return max(0.0, seconds)
