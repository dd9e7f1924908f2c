"""JSON responses.

Stored text may contain lone surrogates, which UTF-8 cannot encode. Such a response is written in
ASCII with escapes instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from starlette.responses import Response

from recollect.language.text import iso

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response with a JSON body. Datetimes are written as ISO 8601 in UTC."""
    return Response(encode_json(value), status, dict(headers or {}), "application/json")


def encode_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_to_plain, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=_to_plain, ensure_ascii=True, allow_nan=False).encode()


def _to_plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
