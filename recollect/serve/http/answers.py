"""Answers as JSON. Stored text may hold what UTF-8 cannot (lone surrogates): such an answer is written in ASCII."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from starlette.responses import Response

from recollect.language.text import iso


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; datetimes are written in ISO 8601, in UTC."""
    return Response(encoded(value), status, dict(headers or {}), "application/json")


def encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(
            value, default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
        )
    except orjson.JSONEncodeError:
        return json.dumps(value, default=_plain, ensure_ascii=True, allow_nan=False).encode()


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
