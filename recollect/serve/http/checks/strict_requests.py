"""Refuse what a route would ignore: unknown parameters and fields, and bodies that nobody reads.

A request with a misspelled parameter would otherwise succeed and do something else than its sender
believes. The check knows the parameters of a route from its declaration, so no route needs to do
anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from pydantic import BaseModel

from recollect.language.text import printable, truncate
from recollect.serve.http.error_responses import Problem

_MAX_NAMES = 10
_MAX_NAME_LENGTH = 80


def query_names(route: APIRoute) -> frozenset[str]:
    """The names of the query parameters that a route declares."""
    # The fields of a query model are plain fields.
    return frozenset(
        field.alias
        for field in get_flat_params(route.dependant)
        if not isinstance(field.field_info, (Path, Header, Cookie))
    )


def check_query(request: Request, names: Collection[str]) -> None:
    """Raise Problem if the request has a query parameter that the route does not have."""
    if not request.scope.get("query_string"):
        return
    unknown = [name for name in request.query_params if name not in names]
    if not unknown:
        return
    fields = [
        {"name": _shorten(name), "problem": f"there is no such query parameter{_hint(name, names)}"}
        for name in unknown[:_MAX_NAMES]
    ]
    raise _problem(fields, _list_parameters(names))


def has_body(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    return length != "0" or "transfer-encoding" in request.headers


async def check_no_body(request: Request, names: Collection[str]) -> None:
    """Raise Problem if a request has a body, for a route that reads none.

    An empty object is accepted: some clients always send one, and it says nothing.
    """
    if not has_body(request):
        return
    body = await request.body()
    try:
        value = json.loads(body or b"null")
    except (ValueError, RecursionError):
        raise Problem(400, "This route reads no request body. Send none.") from None
    if value is None or value == {}:
        return
    if not isinstance(value, dict):
        raise Problem(400, "This route reads no request body. Send none.")
    fields = [
        {"name": _shorten(name), "problem": _body_problem(name, names)}
        for name in list(value)[:_MAX_NAMES]
    ]
    raise _problem(fields, "This route reads no request body.")


def explain_unknown_fields(errors: Iterable[Any], body: Any) -> list[Any]:
    """The errors of a body, in which those about unknown fields suggest the fields that were meant.

    `body` is the type of the body.
    """
    explained = []
    for error in errors:
        if error["type"] == "extra_forbidden":
            *parents, name = error["loc"][1:]
            problem = f"there is no such field{_hint(str(name), _field_names(body, parents))}"
            error = {**error, "msg": problem}
        explained.append(error)
    return explained


def _field_names(annotation: Any, parents: Sequence[Any]) -> set[str]:
    """The fields of the models in a type, or of the field that `parents` lead to."""
    models = list(_models_in(annotation))
    if not parents:
        return {name for model in models for name in model.model_fields}
    types = [
        model.model_fields[parents[0]].annotation
        for model in models
        if parents[0] in model.model_fields
    ]
    if not types:  # the number of an entry of a list, or the name of a variant
        return _field_names(annotation, parents[1:])
    return set().union(*(_field_names(type_, parents[1:]) for type_ in types))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _body_problem(name: str, names: Collection[str]) -> str:
    if name in names:
        return "it is ignored in the body; send it as a query parameter"
    return f"it is ignored in the body{_hint(name, names)}"


def _problem(fields: list[dict[str, str]], advice: str) -> Problem:
    problems = "; ".join(f"{field['name']}: {field['problem']}" for field in fields)
    if not problems.endswith("?"):
        problems += "."
    return Problem(400, f"{problems} {advice}", fields=fields)


def _hint(name: str, names: Iterable[str]) -> str:
    similar = get_close_matches(name, names, 1)
    if not similar:
        return ""
    return f". Did you mean {similar[0]!r}?"


def _list_parameters(names: Collection[str]) -> str:
    if not names:
        return "This route has no query parameters."
    return f"This route has: {', '.join(sorted(names))}."


def _shorten(name: str) -> str:
    return truncate(printable(name), _MAX_NAME_LENGTH)
