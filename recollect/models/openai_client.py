"""A client for servers with OpenAI's HTTP API: OpenAI, Ollama, vLLM, llama.cpp and others.

`Server` is the address and the key of a server, and sends blocking requests to it. Requests send
the user's texts to another program, so nothing is sent unless a setting names an address. The key
goes to that address only: never over an unencrypted connection, never to the target of a redirect,
and never into an error message.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from recollect import settings
from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import printable, truncate
from recollect.model.documents import Json

ERROR_BYTES = 65_536
"""How much of an error response is read."""
ERROR_LENGTH = 300
"""How many characters of it are shown."""
CHAT_BYTES = 4_000_000
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "User-Agent": "recollect",
}


class RequestFailed(RecollectError):
    """The server could not be reached (status 0), or did not answer with success."""

    def __init__(self, server: str, status: int, detail: str, headers: Any = None) -> None:
        answer = f"answered {status}" if status else "could not be reached"
        super().__init__(f"{server} {answer}: {detail}")
        self.status = status
        self.detail = detail
        """The server's own error message; may be empty."""
        self.location = (headers or {}).get("Location", "")
        self.retry_after = parse_retry_after((headers or {}).get("Retry-After"))


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
        address = address.strip()
        try:
            parts = urlsplit(address)
            is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or not is_plain(address):
            raise InvalidInput(
                f"{setting} is not an http(s) address. Use one like "
                "http://127.0.0.1:11434/v1#model."
            )
        if "@" in parts.netloc:
            raise InvalidInput(
                f"{setting} contains a password. Put the API key into {setting}_KEY."
            )
        path = parts.path.rstrip("/").removesuffix(endpoint)
        server = cls(parts._replace(path=path), (key or "").strip() or None)
        # http.client shows an invalid header value in its error message, so keys are checked first.
        if server.key and not is_plain(server.key):
            raise InvalidInput(
                f"{setting}_KEY is not a valid key: it contains a space, a line break or another "
                "character that keys cannot have."
            )
        if server.key and not server.is_private:
            raise InvalidInput(
                f"The key would be sent to {parts.netloc} unencrypted. Use an https:// address in "
                f"{setting}, or leave {setting}_KEY empty."
            )
        return server

    @property
    def name(self) -> str:
        """The address as error messages show it."""
        return f"{self.parts.scheme}://{self.parts.netloc}{self.parts.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine."""
        host = self.parts.hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read what is sent to the server."""
        return self.parts.scheme == "https" or self.is_loopback

    def url(self, path: str, query: str = "") -> str:
        queries = "&".join(filter(None, (self.parts.query, query)))
        return self.parts._replace(path=self.parts.path + path, query=queries, fragment="").geturl()

    def hide_key(self, text: str) -> str:
        """A text without the key, which some servers repeat in their responses."""
        return text.replace(self.key, "***") if self.key else text

    def describe(self, text: str) -> str:
        """A server's own words for an error message: short, printable and without the key."""
        return truncate(self.hide_key(" ".join(printable(text).split())), ERROR_LENGTH)

    def post(self, endpoint: str, body: Any, max_bytes: int, timeout: float) -> bytes:
        """Send JSON and return the body of the response.

        Raises RequestFailed, or RecollectError if the response is too large.
        """
        handlers: list[Any] = [_NoRedirects()]
        if self.is_loopback:
            handlers.append(urllib.request.ProxyHandler({}))  # no proxy for this machine
        request = urllib.request.Request(  # noqa: S310
            self.url(endpoint), data=json.dumps(body).encode(), headers=_HEADERS, method="POST"
        )
        if self.key:
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        try:
            opener = urllib.request.build_opener(*handlers)
            with opener.open(request, timeout=timeout) as response:
                answer: bytes = response.read(max_bytes + 1)
                if len(answer) > max_bytes:
                    raise RecollectError(
                        f"{self.name} answered with more than {max_bytes:,} bytes."
                    )
                if response.length:  # a bounded read does not report missing bytes itself
                    raise http.client.IncompleteRead(answer, response.length)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                text = b""
                with suppress(OSError, http.client.HTTPException):
                    text = error.read(ERROR_BYTES)
                detail = self.describe(error_message(text.decode("utf-8", "replace")))
                raise RequestFailed(self.name, error.code, detail, error.headers) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            detail = self.describe(str(reason) or type(reason).__name__)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise RecollectError(
                    f"{self.name} has no certificate that this machine trusts: {detail}"
                ) from None
            raise RequestFailed(self.name, 0, detail) from None


def is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: they would drop the body or send it to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def error_message(text: str) -> str:
    """The message in an error response, in the shapes that servers use; else the whole text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail")
    return value if isinstance(value, str) else text


def parse_retry_after(value: str | None) -> float | None:
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
    return max(0.0, seconds) if math.isfinite(seconds) else None


# -- chat ----------------------------------------------------------------------


class ChatModel:
    """The model that RECOLLECT_MODEL names, for requests in the background.

    Texts are sent to it only if RECOLLECT_OBSERVER is `model`, and when it is called.
    """

    def __init__(
        self, address: str, model: str, key: str | None = None, timeout: float = 120
    ) -> None:
        """`address` is the base URL, to which `/chat/completions` is appended."""
        if not model:
            raise InvalidInput(
                "RECOLLECT_MODEL must name the model after a #: https://host/v1#model."
            )
        self._server = Server.parse(address, key, "RECOLLECT_MODEL", "/chat/completions")
        self._timeout = timeout
        self.model = model

    @classmethod
    def from_settings(cls) -> ChatModel | None:
        """The model of the settings; None if they name none."""
        value = settings.MODEL.get()
        if not value:
            return None
        address, _, model = value.partition("#")
        return cls(address, model, settings.MODEL_KEY.get() or None)

    def __call__(self, body: dict[str, Json]) -> str:
        """Send a request and return the text of the completion.

        Raises RecollectError if there is no complete text.
        """
        response = self._server.post("/chat/completions", body, CHAT_BYTES, self._timeout)
        try:
            choice = json.loads(response)["choices"][0]
            message = choice["message"]
            text = message.get("content")
            is_partial = message.get("refusal") or choice.get("finish_reason") == "length"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            text, is_partial = None, True
        if not isinstance(text, str) or is_partial:
            raise RecollectError(f"{self._server.name} did not return a complete answer.")
        return text
