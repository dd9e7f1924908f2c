"""A model that answers, asked in the background: the service that RECOLLECT_MODEL names, one request at a time.

What is said leaves this machine, so nothing is asked unless that is set and
RECOLLECT_OBSERVER is `model`. The key goes to that address alone.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from recollect import settings
from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import printable, truncate
from recollect.model.documents import Json
from recollect.models.remote import _NoRedirects, address_of, key_for, loopback

SETTING = "RECOLLECT_MODEL"
ANSWER_BYTES = 4_000_000
COMPLAINT_LENGTH = 300


class ChatModel:
    """Asks for chat completions. Nothing is sent until it is called."""

    def __init__(
        self, address: str, model: str, key: str | None = None, timeout: float = 120
    ) -> None:
        """`address` is what `/chat/completions` is put after."""
        if not model:
            raise InvalidInput(
                f"{SETTING} must name the model that observes, after a #: https://host/v1#model."
            )
        parts = address_of(address, SETTING, "/chat/completions")
        self._key = key_for(key, parts, SETTING)
        self._url = parts._replace(path=f"{parts.path}/chat/completions", fragment="").geturl()
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._timeout = timeout
        local = [urllib.request.ProxyHandler({})] if loopback(parts) else []
        self._opener = urllib.request.build_opener(_NoRedirects, *local)
        self.model = model

    def __repr__(self) -> str:
        return f"Chat({self._shown!r}, {self.model!r})"

    @classmethod
    def from_settings(cls) -> ChatModel | None:
        """What the settings name."""
        said = settings.MODEL.get()
        if not said:
            return None
        address, _, model = said.partition("#")
        return cls(address, model, settings.MODEL_KEY.get() or None)

    def __call__(self, body: dict[str, Json]) -> str:
        """The text of the answer. Raises RecollectError where there is none."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "recollect",
        }
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._url, data=data, headers=headers, method="POST")  # noqa: S310
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                said = answer.read(ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                complaint = self._safe(error.read(65_536).decode("utf-8", "replace"))
            raise RecollectError(f"{self._shown} answered {error.code}: {complaint}") from None
        except (OSError, http.client.HTTPException) as error:
            raise RecollectError(
                f"{self._shown} could not be reached: {self._safe(str(error))}"
            ) from None
        return self._text(said)

    def _text(self, said: bytes) -> str:
        if len(said) > ANSWER_BYTES:
            raise RecollectError(f"{self._shown} answered with more than {ANSWER_BYTES:,} bytes.")
        try:
            choice = json.loads(said)["choices"][0]
            message = choice["message"]
            text = message.get("content")
            if (
                message.get("refusal")
                or not isinstance(text, str)
                or choice.get("finish_reason") == "length"
            ):
                raise ValueError
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise RecollectError(f"{self._shown} gave no whole answer.") from None
        return text

    def _safe(self, text: str) -> str:
        """Words of a server: short, harmless on a terminal, and without the key, which some repeat."""
        shown = " ".join(printable(text).split())
        return truncate(shown.replace(self._key, "***") if self._key else shown, COMPLAINT_LENGTH)
