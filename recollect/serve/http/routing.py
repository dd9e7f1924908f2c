"""Routes: ids in paths, strict JSON bodies, common parameters, and what a key may see that writes.

A route refuses what it would ignore: unknown parameters and fields, and bodies that nobody reads.
A request with a misspelled parameter would otherwise succeed and do something else than its sender
believes. The check knows the parameters of a route from its declaration, so no route needs to do
anything.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, get_args

from fastapi import HTTPException, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import compile_path

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import printable, truncate
from recollect.serve.http.limits import CHAT
from recollect.serve.http.responses import Problem, json_response
from recollect.serve.http.route_policy import policy_of
from recollect.serve.identity.principal import READ, WRITE, Forbidden
from recollect.settings import LIMITS

_MAX_NAMES = 10
_MAX_NAME_LENGTH = 80
_MAX_INLINE_BYTES = 65_536  # larger bodies are parsed in a thread, so they block no other request
OPENAI = "openai"
"""The tag of routes that pass requests on. Whether a parameter exists is not ours to say."""
_TEXTLESS_FIELDS = (
    "added change conversation_id created done id imports message_id message_ids msg_id number "
    "purge seq session_id source state success thread_id version"
)
_TEXTLESS = frozenset(_TEXTLESS_FIELDS.split())
"""The fields of responses that have no stored text."""
_TOO_DEEP = f"The body is nested more than {LIMITS.nesting} levels deep."


_CONTRACT_MARK = "route_of_contract"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
F = TypeVar("F", bound=Callable[..., Any])


def route_of_contract(endpoint: F) -> F:
    """Mark a route that another program has as well. Its clients may send unknown parameters."""
    setattr(endpoint, _CONTRACT_MARK, True)
    return endpoint


class _IdConvertor(Convertor[str]):
    """An id in a path (`{name:id}`): any non-empty text, including slashes and line breaks."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class DeferredRoute(APIRoute):
    """A route whose parameters and responses FastAPI analyses when they are first needed.

    To analyse every route takes a sixth of the start of the server. Until then, the route has
    only the attributes by which requests are matched. The first use of any other attribute (`app`,
    to answer a request) completes it. The name of the endpoint is the id of its operation, which
    clients are generated from.
    """

    _analysis = threading.RLock()  # the API description is made in a thread

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, methods: list[str], **options: Any
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        if options.get("operation_id") is None:
            options["operation_id"] = camel_case(endpoint.__name__)
        self._options: dict[str, Any] | None = {"methods": methods, **options}

    def __getattr__(self, name: str) -> Any:
        with self._analysis:
            options = self._options
            if options is not None:
                self._options = None
                super().__init__(self.path, self.endpoint, **options)
        return object.__getattribute__(self, name)

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        if self.include_in_schema and OPENAI not in self.tags:
            handler = self._strict(handler)
        policy = policy_of(self.endpoint)
        # The answers of a model say nothing of the library.
        if policy is not None and policy.scope == WRITE and policy.rate_limit != CHAT:
            handler = without_stored_text(handler)
        return handler

    def _strict(self, handler: Handler) -> Handler:
        """Refuse what the route would ignore."""
        is_of_contract = hasattr(self.endpoint, _CONTRACT_MARK)
        names = query_names(self)
        reads_body = self.body_field is not None or "requestBody" in (self.openapi_extra or {})

        async def handle(request: Request) -> Response:
            if not is_of_contract:
                check_query(request, names)
            if not reads_body:
                await check_no_body(request, names)
            try:
                return await handler(request)
            except RequestValidationError as error:
                body = self.body_field and self.body_field.field_info.annotation
                raise RequestValidationError(explain_unknown_fields(error.errors(), body)) from None

        return handle


def without_stored_text(handler: Handler) -> Handler:
    """A key that writes and may not read sees ids and numbers, no stored text."""

    async def handle(request: Request) -> Response:
        response = await handler(request)
        if READ in request.state.principal.scopes or not response.body:
            return response
        return only_ids(response)

    return handle


def only_ids(response: Response) -> Response:
    if response.media_type != "application/json":
        raise Forbidden("This key may not read, so it gets no pages.")
    return json_response(without_text(json.loads(bytes(response.body))), response.status_code)


def without_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_text(value[name]) for name in value.keys() & _TEXTLESS}
    if isinstance(value, list):
        return [without_text(part) for part in value]
    return value


class JsonRoute(DeferredRoute):
    """A route that accepts only strict JSON with the right content type."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def strict_handler(request: Request) -> Response:
            body = self.body_field
            is_read = body is not None and (body.field_info.is_required() or has_body(request))
            if is_read and content_type(request) != "application/json":
                raise HTTPException(
                    415, "Send the body as JSON with 'Content-Type: application/json'."
                )
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict_handler


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= _MAX_INLINE_BYTES:
            return parse_json(body)
        return await run_in_threadpool(parse_json, body)


def content_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_json(body: bytes) -> Any:
    """Parse strict JSON: no NaN, no duplicate keys, limited nesting. Raises HTTPException."""
    try:
        value = json.loads(
            body, parse_constant=reject_constant, object_pairs_hook=reject_duplicate_keys
        )
    except RecursionError:
        raise HTTPException(400, _TOO_DEEP) from None
    except ValueError as error:  # also invalid UTF-8, or a number with too many digits
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} at character {error.pos}"
        raise HTTPException(400, f"The body is not valid JSON: {reason[:200]}.") from None
    if body.count(b"[") + body.count(b"{") > LIMITS.nesting:
        check_depth(value)
    return value


def reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Parsers disagree about which of two equal keys counts, so neither is accepted."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def check_depth(value: Any) -> None:
    level = [value]
    for _ in range(LIMITS.nesting):
        next_level: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                next_level.extend(item.values())
            elif isinstance(item, list):
                next_level.extend(item)
        if not next_level:
            return
        level = next_level
    raise HTTPException(400, _TOO_DEEP)


@contextmanager
def not_found_as(message: str) -> Iterator[None]:
    """Replace the message of NotFound with the one a contract specifies."""
    try:
        yield
    except NotFound:
        raise NotFound(message) from None


def clamp(value: int, minimum: int, maximum: int) -> int:
    return max(minimum, min(value, maximum))


def clamp_page(limit: int, offset: int) -> tuple[int, int]:
    """A page within the limits: values outside are clamped."""
    return clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)


def created_status(created: bool) -> int:
    """The status of such a response."""
    return 201 if created else 200


def one_value(value: str | None, alias: str | None, name: str, alias_name: str) -> str | None:
    """The value of a field with two names. Raises InvalidInput if they contradict each other."""
    if value is not None and alias is not None and value != alias:
        raise InvalidInput(f"{name} and {alias_name} mean the same, but have different values.")
    if value is not None:
        return value
    return alias


# -- unknown parameters and fields ---


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
        {"name": shorten(name), "problem": f"there is no such query parameter{hint(name, names)}"}
        for name in unknown[:_MAX_NAMES]
    ]
    advice = "This route has no query parameters."
    if names:
        advice = f"This route has: {', '.join(sorted(names))}."
    raise _problem(fields, advice)


def has_body(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    return length != "0" or "transfer-encoding" in request.headers


async def check_no_body(request: Request, names: Collection[str]) -> None:
    """Raise Problem if a request has a body, for a route that reads none.

    An empty object is accepted: some clients always send one, and it says nothing.
    """
    if not has_body(request):
        return
    try:
        value = json.loads(await request.body() or b"null")
    except (ValueError, RecursionError):
        value = "no JSON"
    if value is None or value == {}:
        return
    if not isinstance(value, dict):
        raise Problem(400, "This route reads no request body. Send none.")
    fields = []
    for name in list(value)[:_MAX_NAMES]:
        problem = f"it is ignored in the body{hint(name, names)}"
        if name in names:
            problem = "it is ignored in the body; send it as a query parameter"
        fields.append({"name": shorten(name), "problem": problem})
    raise _problem(fields, "This route reads no request body.")


def explain_unknown_fields(errors: Iterable[Any], body: Any) -> list[Any]:
    """The errors of a body, in which those about unknown fields suggest the fields that were meant.

    `body` is the type of the body.
    """
    explained = []
    for error in errors:
        if error["type"] == "extra_forbidden":
            *parents, name = error["loc"][1:]
            problem = f"there is no such field{hint(str(name), field_names(body, parents))}"
            error = {**error, "msg": problem}
        explained.append(error)
    return explained


def field_names(annotation: Any, parents: Sequence[Any]) -> set[str]:
    """The fields of the models in a type, or of the field that `parents` lead to."""
    models = list(models_in(annotation))
    if not parents:
        return {name for model in models for name in model.model_fields}
    types = [
        model.model_fields[parents[0]].annotation
        for model in models
        if parents[0] in model.model_fields
    ]
    if not types:  # the number of an entry of a list, or the name of a variant
        return field_names(annotation, parents[1:])
    return set().union(*(field_names(type_, parents[1:]) for type_ in types))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def _problem(fields: list[dict[str, str]], advice: str) -> Problem:
    problems = "; ".join(f"{field['name']}: {field['problem']}" for field in fields)
    if not problems.endswith("?"):
        problems += "."
    return Problem(400, f"{problems} {advice}", fields=fields)


def hint(name: str, names: Iterable[str]) -> str:
    similar = get_close_matches(name, names, 1)
    return f". Did you mean {similar[0]!r}?" if similar else ""


def shorten(name: str) -> str:
    return truncate(printable(name), _MAX_NAME_LENGTH)
