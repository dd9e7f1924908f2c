"""An embedding model on a server with OpenAI's HTTP API.

Texts are sent to the server only if RECOLLECT_EMBEDDINGS names its address.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import storable
from recollect.models.openai_client import ERROR_BYTES, RequestFailed, Server, error_message
from recollect.models.stopping import Stop, never_stop, require_running

SETTING = "RECOLLECT_EMBEDDINGS"
ENDPOINT = "/embeddings"
BATCH_TEXTS = 64
BATCH_CHARACTERS = 100_000
LONGEST_TEXT = 8_000  # characters; most of these models reject more than 8,192 tokens
RESPONSE_BYTES = 64_000_000
LONGEST_PAUSE = 0.5  # seconds between two checks whether indexing should stop
FIRST_WAIT = 0.5  # seconds before the first retry; doubles with each retry


class RetryPolicy(NamedTuple):
    """How often a request is sent, and the longest wait before a retry, in seconds."""

    tries: int
    longest_wait: float


BACKGROUND = RetryPolicy(5, 60.0)
INTERACTIVE = RetryPolicy(2, 2.0)  # a user is waiting


def _wait(seconds: float, stop: Stop) -> None:
    end = time.monotonic() + seconds
    while not stop() and time.monotonic() < end:
        time.sleep(min(LONGEST_PAUSE, max(end - time.monotonic(), 0.0)))


def run_until(stop: Stop, work: Callable[[], bytes]) -> bytes:
    """The result of `work`. If indexing should stop, nobody waits for it any longer."""
    if stop is never_stop:
        return work()
    result: Future[bytes] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    # A thread of a pool would keep the process from ending.
    threading.Thread(target=run, name="recollect-embedding", daemon=True).start()
    while not wait([result], LONGEST_PAUSE).done:
        require_running(stop)
    return result.result()


class RemoteModel:
    """A model on a server. Nothing is sent until it is needed. Safe to use from several threads."""

    def __init__(
        self,
        address: str,
        model: str,
        key: str | None = None,
        dimensions: int | None = None,
        timeout: float = 30,
        wait: Callable[[float, Stop], None] = _wait,
    ) -> None:
        """`address` is the base URL, to which `/embeddings` is appended.

        If `dimensions` is given, vectors of any other length are an error.
        """
        self._server = Server.parse(address, key, SETTING, ENDPOINT)
        self._timeout = timeout
        self._wait = wait
        self._dimensions = dimensions
        self.name = model

    @property
    def dimensions(self) -> int:
        """The length of the vectors. If it is unknown, the server is asked once."""
        if self._dimensions is None:
            self._request(["a"], INTERACTIVE)
        assert self._dimensions is not None
        return self._dimensions

    @property
    def version(self) -> str:
        """Without the address: the same model on another server makes the same vectors."""
        return f"{self.name}:{self.dimensions}"

    def embed(self, texts: Sequence[str], stop: Stop = never_stop) -> NDArray[np.float32]:
        """One unit vector per text, as rows. Empty texts, which servers reject, are zero."""
        return self._embed(texts, BACKGROUND, stop)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query. Gives up sooner than `embed`."""
        row: NDArray[np.float32] = self._embed([text], INTERACTIVE)[0]
        return row

    def _embed(
        self, texts: Sequence[str], policy: RetryPolicy, stop: Stop = never_stop
    ) -> NDArray[np.float32]:
        batches = [
            (rows, self._request([clean(texts[row]) for row in rows], policy, stop))
            for rows in _batches(texts)
        ]
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for rows, batch in batches:
            vectors[rows] = batch
        return vectors

    def _request(
        self, texts: list[str], policy: RetryPolicy, stop: Stop = never_stop
    ) -> NDArray[np.float32]:
        body = {"model": self.name, "input": texts, "encoding_format": "float"}
        vectors = self._parse(self._post(body, policy, stop), len(texts))
        if self._dimensions is None:
            self._dimensions = vectors.shape[1]
        if vectors.shape[1] != self._dimensions:
            raise RecollectError(
                f"{self._server.name} answered with {vectors.shape[1]} dimensions where "
                f"{self._dimensions} were expected. If the server has another model now, use "
                f"another name for it in {SETTING} (address#model)."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: NDArray[np.float64] = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
        return units.astype(np.float32)

    # -- requests ----------------------------------------------------------

    def _post(self, body: Any, policy: RetryPolicy, stop: Stop) -> bytes:
        """The response. Temporary failures are retried; the server may say after how long."""
        pause = FIRST_WAIT
        for tries_left in reversed(range(policy.tries)):
            require_running(stop)
            try:
                return run_until(
                    stop,
                    lambda: self._server.post(ENDPOINT, body, RESPONSE_BYTES, self._timeout),
                )
            except RequestFailed as error:
                seconds = pause if error.retry_after is None else error.retry_after
                is_temporary = error.status in (0, 429) or error.status >= 500
                if not is_temporary or not tries_left or seconds > policy.longest_wait:
                    raise self._explain(error) from None
                self._wait(seconds, stop)
                pause *= 2
        raise AssertionError("the last try returns or raises")

    def _explain(self, error: RequestFailed) -> RecollectError:
        """The error for the user: which setting is wrong, and what the server said."""
        server, status = self._server.name, error.status
        detail = f": {error.detail}" if error.detail else "."
        if not status:
            return RecollectError(
                f"{error}. Check that the server is running and that its address in {SETTING} is "
                "correct."
            )
        if status in (401, 403):
            rejected = "the key in" if self._server.key else "a request without"
            return InvalidInput(f"{server} rejected {rejected} {SETTING}_KEY ({status}){detail}")
        if status == 404:
            return InvalidInput(
                f"{server} has no embeddings API at this address, or no model {self.name!r} "
                f"(404). Check both in {SETTING} (address#model){detail}"
            )
        if 300 <= status < 400:
            target = self._server.describe(error.location or "nowhere")
            return InvalidInput(
                f"{server} redirects to {target}, which is not followed. If that is the correct "
                f"address, put it into {SETTING}."
            )
        wait = ""
        if error.retry_after:
            wait = f" The server asks to wait {error.retry_after:.0f} seconds."
        return RecollectError(
            f"{server} could not embed with {self.name!r} ({status}){detail}{wait}"
        )

    # -- responses ---------------------------------------------------------

    def _parse(self, response: bytes, count: int) -> NDArray[np.float64]:
        """The vectors in a response, in the order of the texts."""
        try:
            vectors = np.array(embeddings(response, count), dtype=np.float64)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise self._invalid_response(f"{type(error).__name__}: {error}") from None
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise self._invalid_response("not vectors of finite numbers")
        return vectors

    def _invalid_response(self, reason: str) -> RecollectError:
        return RecollectError(
            f"{self._server.name} did not answer like an embeddings server "
            f"({self._server.describe(reason)}). Check the address in {SETTING}; it usually ends "
            "in /v1."
        )


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The rows of the texts that are not empty, in batches that servers accept."""
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


def clean(text: str) -> str:
    return storable(text.lstrip()[:LONGEST_TEXT])


def embeddings(response: bytes, count: int) -> list[Any]:
    """The embeddings of a response in order. Raises ValueError and others if it is not valid."""
    record = json.loads(response)
    if record.get("error"):
        raise ValueError(error_message(response[:ERROR_BYTES].decode("utf-8", "replace")))
    items = record["data"]
    order = [item.get("index", row) for row, item in enumerate(items)]
    if sorted(order) != list(range(count)):
        raise ValueError(f"{len(items)} vectors for {count} texts, or not one for each")
    return [decode_vector(items[order.index(row)]["embedding"]) for row in range(count)]


def decode_vector(value: Any) -> Any:
    """A vector is a list of numbers, or little-endian 32-bit floats in base64."""
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    except binascii.Error as error:
        raise ValueError("a vector that is not base64") from error
