"""What the routes share: ids in paths, bodies that are JSON and nothing else, the errors they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.settings import LIMITS

_PARSED_AT_ONCE = 65_536  # a longer body is parsed in a thread, so that others need not wait


class _AnyText(Convertor[str]):
    """An id in a path: any text but none, slashes and line breaks too."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _AnyText())


class JsonRoute(APIRoute):
    """A route whose body, if it takes one, is JSON in the strict sense, and says so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if self.body_field is not None:
                _demand_json(request)
            return await handle(_StrictRequest(request.scope, request.receive))

        return checked


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= _PARSED_AT_ONCE:
            return _parsed(body)
        return await run_in_threadpool(_parsed, body)


def _demand_json(request: Request) -> None:
    said = request.headers.get("content-type", "")
    if said.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be JSON, with the content type application/json.")


def _parsed(body: bytes) -> Any:
    try:
        value = json.loads(body, parse_constant=_no_number, object_pairs_hook=_no_key_twice)
    except RecursionError:
        raise HTTPException(400, _TOO_DEEP) from None
    except (
        ValueError
    ) as error:  # a syntax error, bytes that are no text, a number of too many digits
        reason = (
            f"{error.msg} at character {error.pos}"
            if isinstance(error, json.JSONDecodeError)
            else str(error)
        )
        raise HTTPException(400, f"The body is not JSON: {reason[:200]}.") from None
    if body.count(b"[") + body.count(b"{") > LIMITS.nesting:
        _demand_shallow(value)
    return value


_TOO_DEEP = f"The body is nested deeper than {LIMITS.nesting} levels."


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Where a key is there twice, programs differ in which one counts; so neither may."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice in one object")
    return found


def _demand_shallow(value: Any) -> None:
    level = [value]
    for _ in range(LIMITS.nesting):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise HTTPException(400, _TOO_DEEP)


@contextmanager
def not_found_as(sentence: str) -> Iterator[None]:
    """Say NotFound in the contract's words, which are the same whatever was not found."""
    try:
        yield
    except NotFound:
        raise NotFound(sentence) from None


def stored_message(library: Library, conversation_id: str, message_id: str) -> Passage:
    """One message. Raises NotFound."""
    key = library.store.key(conversation_id, message_id)
    found = library.store.contents([key]).get(key)
    if found is None:
        raise NotFound("The message has been deleted.")
    return found[1]


def clamped(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
