"""The chat model that RECOLLECT_MODEL names, for requests in the background.

Texts are sent to the model only if RECOLLECT_MODEL is set and RECOLLECT_OBSERVER is `model`.
"""

from __future__ import annotations

import json

from recollect import settings
from recollect.errors import InvalidInput, RecollectError
from recollect.model.documents import Json
from recollect.models.openai_client import Client, Server

SETTING = "RECOLLECT_MODEL"
ENDPOINT = "/chat/completions"
RESPONSE_BYTES = 4_000_000


class ChatModel:
    """Requests chat completions. Nothing is sent until it is called."""

    def __init__(
        self, address: str, model: str, key: str | None = None, timeout: float = 120
    ) -> None:
        """`address` is the base URL, to which `/chat/completions` is appended."""
        if not model:
            raise InvalidInput(f"{SETTING} must name the model after a #: https://host/v1#model.")
        self._server = Server.parse(address, key, SETTING, ENDPOINT)
        self._client = Client(self._server, ENDPOINT, timeout)
        self.model = model

    def __repr__(self) -> str:
        return f"ChatModel({self._server.name!r}, {self.model!r})"

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
        return self._completion(self._client.post(body, RESPONSE_BYTES))

    def _completion(self, response: bytes) -> str:
        try:
            choice = json.loads(response)["choices"][0]
            message = choice["message"]
            text = message.get("content")
            refusal = message.get("refusal")
            is_cut_off = choice.get("finish_reason") == "length"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            text, refusal, is_cut_off = None, None, False
        if not isinstance(text, str) or refusal or is_cut_off:
            raise RecollectError(f"{self._server.name} did not return a complete answer.")
        return text
