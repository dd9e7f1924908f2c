"""Sentence vectors from a server that speaks OpenAI's embeddings protocol: OpenAI, Ollama, vLLM, llama.cpp and others.

The texts leave this machine, so nothing here happens unless RECOLLECT_EMBEDDINGS names an address. The key goes to that
address alone: never over an open connection, never after a redirect, never into a message.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import ipaddress
import json
import math
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import printable, storable, truncate

BATCH_TEXTS = 64
BATCH_CHARACTERS = 100_000
LONGEST_TEXT = 8_000  # characters; most of these models refuse more than 8,192 tokens
ANSWER_BYTES = 64_000_000
COMPLAINT_BYTES = 65_536
COMPLAINT_LENGTH = 300
FIRST_WAIT = 0.5


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried, and the longest that is waited before it is tried again."""

    tries: int
    longest_wait: float


BACKGROUND = RetryPolicy(5, 60.0)
INTERACTIVE = RetryPolicy(2, 2.0)  # someone sits before the screen


class RemoteModel:
    """A model behind an address. Nothing is asked of it until it is needed. Safe to use from several threads."""

    def __init__(
        self,
        address: str,
        model: str,
        key: str | None = None,
        dimensions: int | None = None,
        timeout: float = 30,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`address` is what `/embeddings` is put after; `dimensions`, where known, is what every answer must have."""
        parts = address_of(address, "RECOLLECT_EMBEDDINGS", "/embeddings")
        self._key = key_for(key, parts, "RECOLLECT_EMBEDDINGS")
        self._url = parts._replace(path=f"{parts.path}/embeddings", fragment="").geturl()
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._timeout = timeout
        self._wait = wait
        self._dimensions = dimensions
        local = [urllib.request.ProxyHandler({})] if loopback(parts) else []
        self._opener = urllib.request.build_opener(_NoRedirects, *local)
        self.name = model

    def __repr__(self) -> str:
        return f"RemoteModel({self._shown!r}, {self.name!r})"

    @property
    def dimensions(self) -> int:
        """How long the vectors are; the server is asked once where nobody has said."""
        if self._dimensions is None:
            self._ask(["a"], INTERACTIVE)
        assert self._dimensions is not None
        return self._dimensions

    @property
    def version(self) -> str:
        """The same model elsewhere makes the same vectors, so the address is no part of it."""
        return f"{self.name}:{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text; zero where there is nothing in it, which servers refuse."""
        return self._embed(texts, BACKGROUND)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question. Gives up sooner than `embed`."""
        row: NDArray[np.float32] = self._embed([text], INTERACTIVE)[0]
        return row

    def _embed(self, texts: Sequence[str], patience: RetryPolicy) -> NDArray[np.float32]:
        answers = [
            (rows, self._ask([_cut(texts[row]) for row in rows], patience))
            for rows in _batches(texts)
        ]
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for rows, answer in answers:
            vectors[rows] = answer
        return vectors

    def _ask(self, texts: list[str], patience: RetryPolicy) -> NDArray[np.float32]:
        asked = {"model": self.name, "input": texts, "encoding_format": "float"}
        vectors = self._vectors(self._post(json.dumps(asked).encode(), patience), len(texts))
        if self._dimensions is None:
            self._dimensions = vectors.shape[1]
        if vectors.shape[1] != self._dimensions:
            raise RecollectError(
                f"{self._shown} answered with {vectors.shape[1]} dimensions where {self._dimensions} were expected. "
                "If another model is served there now, give it another name in RECOLLECT_EMBEDDINGS (address#model)."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = (
            vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
        ).astype(np.float32)
        return unit

    # -- the conversation with the server ----------------------------------

    def _post(self, body: bytes, patience: RetryPolicy) -> bytes:
        """The body of the answer. What may pass is tried again, after a wait that doubles or that the server names."""
        pause = FIRST_WAIT
        for left in reversed(range(patience.tries)):
            try:
                return self._send(body)
            except _MayPass as problem:
                asked = pause if problem.seconds is None else problem.seconds
                if not left or asked > patience.longest_wait:
                    later = f" Asked to wait {asked:.0f} seconds." if problem.seconds else ""
                    raise RecollectError(f"{problem}{later}") from None
                self._wait(asked)
                pause *= 2
        raise AssertionError("the last try returns or raises")

    def _send(self, body: bytes) -> bytes:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "recollect",
        }
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")  # noqa: S310
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return self._bounded(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            said = self._safe(str(reason) or type(reason).__name__)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise RecollectError(
                    f"{self._shown} has no certificate this machine trusts: {said}"
                ) from None
            raise _MayPass(
                f"{self._shown} could not be reached: {said}. Check that the server of RECOLLECT_EMBEDDINGS runs and "
                "that its address is right."
            ) from None

    def _bounded(self, answer: http.client.HTTPResponse) -> bytes:
        body = answer.read(ANSWER_BYTES + 1)
        if (
            answer.length and len(body) <= ANSWER_BYTES
        ):  # bytes still to come; a bounded read does not complain itself
            raise http.client.IncompleteRead(body, answer.length)
        if len(body) > ANSWER_BYTES:
            raise RecollectError(f"{self._shown} answered with more than {ANSWER_BYTES:,} bytes.")
        return body

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        said = self._complaint(error)
        if error.code in (401, 403):
            wrong = (
                "the key in RECOLLECT_EMBEDDINGS_KEY"
                if self._key
                else "a request without RECOLLECT_EMBEDDINGS_KEY"
            )
            return InvalidInput(f"{self._shown} refused {wrong} ({error.code}){said}")
        if error.code == 404:
            return InvalidInput(
                f"{self._shown} has no embeddings at this address, or no model {self.name!r} (404); check both in "
                f"RECOLLECT_EMBEDDINGS (address#model){said}"
            )
        if 300 <= error.code < 400:
            target = self._safe(error.headers.get("Location", "nowhere"))
            return InvalidInput(
                f"{self._shown} sends on to {target}, which is not followed; if that is right, put it into "
                "RECOLLECT_EMBEDDINGS."
            )
        message = f"{self._shown} could not embed with {self.name!r} ({error.code}){said}"
        if error.code == 429 or error.code >= 500:
            return _MayPass(message, _retry_after(error.headers.get("Retry-After")))
        return RecollectError(message)

    def _complaint(self, error: urllib.error.HTTPError) -> str:
        """What the server itself said, as the end of a sentence."""
        try:
            said = self._safe(_message(error.read(COMPLAINT_BYTES).decode("utf-8", "replace")))
        except (OSError, http.client.HTTPException):
            said = ""
        return f": {said}" if said else "."

    def _safe(self, text: str) -> str:
        """Words of a server: short, harmless on a terminal, and without the key, which some repeat."""
        shown = " ".join(printable(text).split())
        return truncate(shown.replace(self._key, "***") if self._key else shown, COMPLAINT_LENGTH)

    def _vectors(self, answer: bytes, count: int) -> NDArray[np.float64]:
        """The vectors in an answer, in the order of what was asked."""
        try:
            found = json.loads(answer)
            if found.get("error"):
                raise ValueError(_message(answer[:COMPLAINT_BYTES].decode("utf-8", "replace")))
            items = found["data"]
            order = [item.get("index", row) for row, item in enumerate(items)]
            if sorted(order) != list(range(count)):
                raise ValueError(f"{len(items)} vectors for {count} texts, or not one for each")
            rows = [_vector(items[order.index(row)]["embedding"]) for row in range(count)]
            vectors = np.array(rows, dtype=np.float64)
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise self._unreadable(f"{type(error).__name__}: {error}") from None
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise self._unreadable("not vectors of finite numbers")
        return vectors

    def _unreadable(self, why: str) -> RecollectError:
        return RecollectError(
            f"{self._shown} did not answer as an embeddings server does ({self._safe(why)}). Check the address in "
            "RECOLLECT_EMBEDDINGS; it usually ends in /v1."
        )


class _MayPass(Exception):
    """A failure worth another try, after as many seconds as the server asked for."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST loses its body or carries it to a host that nobody chose."""

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


def address_of(said: str, setting: str, endpoint: str) -> SplitResult:
    """The address of a service that speaks OpenAI's protocol, as a setting says it: what an endpoint is put after."""
    said = said.strip()
    try:
        parts = urlsplit(said)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and said.isascii() and said.isprintable() and " " not in said
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput(
            f"{setting} is no http(s) address, such as http://127.0.0.1:11434/v1#model."
        )
    if "@" in parts.netloc:
        raise InvalidInput(f"{setting} holds a password; a key belongs into {setting}_KEY.")
    return parts._replace(path=parts.path.rstrip("/").removesuffix(endpoint))


def key_for(key: str | None, parts: SplitResult, setting: str) -> str | None:
    """The key, if it may go to that address."""
    key = (key or "").strip()
    if not key:
        return None
    if (
        not (key.isascii() and key.isprintable()) or " " in key
    ):  # else http.client would show it while complaining
        raise InvalidInput(
            f"{setting}_KEY holds characters that no key has, such as a space or a line break."
        )
    if parts.scheme == "http" and not loopback(parts):
        raise InvalidInput(
            f"The key would go to {parts.netloc} unencrypted: use an https:// address in {setting}, or "
            f"leave {setting}_KEY empty."
        )
    return key


def loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The rows of texts that hold something, as many at a time as a server takes."""
    batch: list[int] = []
    characters = 0
    for row, text in enumerate(texts):
        if not text.strip():
            continue
        length = min(len(text), LONGEST_TEXT)
        if batch and (len(batch) == BATCH_TEXTS or characters + length > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(row)
        characters += length
    if batch:
        yield batch


def _cut(text: str) -> str:
    return storable(text.lstrip()[:LONGEST_TEXT])


def _vector(value: Any) -> Any:
    """Numbers, or the bytes of little-endian 32-bit ones in base64."""
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except binascii.Error as error:
        raise ValueError("a vector that is not base64") from error


def _message(said: str) -> str:
    """The message in an error, in the shapes that servers use; else all of it."""
    try:
        found = json.loads(said)
        while isinstance(found, dict):
            found = next(
                (found[key] for key in ("error", "message", "detail") if found.get(key)), None
            )
    except (ValueError, RecursionError):
        return said
    return found if isinstance(found, str) else said


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number of them or from a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
