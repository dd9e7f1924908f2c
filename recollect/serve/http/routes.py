"""Routes are declared once: the address, who may use it, and what the API reference says.

    routes = Routes("conversations", CONVERSATIONS)

    @routes.add("GET /conversations", READ, returns=ConversationList)
    def list_conversations(access: AccessTo) -> Response: ...

A route refuses what it would ignore: unknown parameters and fields, and bodies that nobody reads.
A request with a misspelled parameter would otherwise succeed and do something else than its sender
believes. An application with a route that declares no policy does not start.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from fastapi import HTTPException, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Match, compile_path
from starlette.routing import Route as PlainRoute

from recollect.language.text import printable, truncate
from recollect.serve.http import limits
from recollect.serve.http.responses import Problem, json_response
from recollect.serve.identity.principal import READ, WRITE, Forbidden, Principal
from recollect.settings import LIMITS

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
WEBSOCKET = "WEBSOCKET"
"""Takes the place of the method for WebSockets."""
PUBLIC = "public"
"""The scope of routes that need no credential."""
ANY_SCOPE = ""
"""The scope of routes that need a valid credential, whatever its scopes."""
_MAX_INLINE_BYTES = 65_536  # larger bodies are parsed in a thread, so they block no other request
_TEXTLESS = frozenset(
    (
        "added change conversation_id created done id imports message_id message_ids msg_id number "
        "purge seq session_id source state success thread_id version"
    ).split()
)
"""The fields of responses that have no stored text."""
_TOO_DEEP = f"The body is nested more than {LIMITS.nesting} levels deep."

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


# -- policies ---


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """How the edge treats the requests of a route, before they reach it."""

    scope: str
    """The scope that a credential needs: READ, WRITE or ADMIN, ANY_SCOPE or PUBLIC."""
    toolsets: tuple[str, ...] = ()
    """The toolsets that it needs, all of them."""
    one_of: tuple[str, ...] = ()
    """Toolsets of which it needs one. The route checks which, from its parameters."""
    document: str = ""
    """The parameter in the path or query with the id of a document. The credential must be able to
    reach that document, too; see `Access`."""
    rate_limit: str = ""
    """The group in `limits` that requests count against. By default ANONYMOUS for public
    routes, otherwise WRITE for unsafe methods and READ for others. Requests in SEARCH also take
    turns."""
    body_limit: str = "request_bytes"
    """The setting in LIMITS that bounds the request body."""
    ends_streams: bool = False
    """Whether the route ends its own event streams when the server shuts down. Others are cut."""

    @property
    def is_public(self) -> bool:
        return self.scope == PUBLIC

    def rate_limit_for(self, method: str) -> str:
        if self.rate_limit:
            return self.rate_limit
        if self.is_public:
            return limits.ANONYMOUS
        return limits.READ if method in SAFE_METHODS else limits.WRITE

    def check(self, principal: Principal) -> None:
        """Raise Forbidden unless the credential allows the route."""
        if self.scope not in (PUBLIC, ANY_SCOPE):
            principal.require(self.scope)
        for toolset in self.toolsets:
            principal.require_toolset(toolset)
        if self.one_of and not any(map(principal.has_toolset, self.one_of)):
            raise Forbidden(f"This key may use none of the toolsets {' and '.join(self.one_of)}.")


NO_ROUTE = RoutePolicy(ANY_SCOPE)
"""For requests that no route answers: with a valid credential, they get 404 or 405."""
NO_PUBLIC_ROUTE = RoutePolicy(PUBLIC)
"""The same for the paths of public routes."""


def set_policy(endpoint: Any, policy: RoutePolicy) -> None:
    endpoint.route_policy = policy


class RoutePolicies:
    """Finds the policy that applies to a request. Raises LookupError for an undeclared route."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._declared: list[tuple[frozenset[str], Any, RoutePolicy]] = []
        for route in routes:
            policy = getattr(getattr(route, "endpoint", None), "route_policy", None)
            if policy is None:
                raise LookupError(f"{getattr(route, 'path', route)} has no policy.")
            methods = frozenset((WEBSOCKET,))
            if isinstance(route, PlainRoute):
                methods = frozenset(route.methods or ())
            self._declared.append((methods, route.path_regex, policy))  # type: ignore[attr-defined]

    def find(self, method: str, path: str) -> RoutePolicy:
        if method == "HEAD":
            method = "GET"
        missing = NO_ROUTE
        for methods, pattern, policy in self._declared:
            if (policy.is_public or method in methods) and pattern.match(path) is not None:
                if method in methods:
                    return policy
                missing = NO_PUBLIC_ROUTE
        return missing


# -- declarations ---


class _IdConvertor(Convertor[str]):
    """An id in a path (`{name:id}`): any non-empty text, including slashes and line breaks."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


class Route(APIRoute):
    """A route that accepts only what it reads, and bodies only as strict JSON.

    FastAPI analyses its parameters and responses when it is first needed: to analyse every route
    takes a third of the start of the server. Until then it has only the attributes by which
    requests are matched. The first use of any other completes it.
    """

    _analysis = threading.RLock()  # the API description is made in a thread

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: list[str],
        is_lenient: bool,
        **options: Any,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = set(methods)
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._is_lenient = is_lenient
        self._options: dict[str, Any] | None = {"methods": methods, **options}

    def __getattr__(self, name: str) -> Any:
        with self._analysis:
            options, self._options = self._options, None
            if options is not None:
                super().__init__(self.path, self.endpoint, **options)
        return object.__getattribute__(self, name)

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """`{name:id}/export` matches only if the undecoded path ends in `/export`: an id that ends
        so has an encoded slash."""
        before, _, last = self.path.rpartition("/")
        raw_path = scope.get("raw_path")
        is_literal = ":id}" in before and "{" not in last
        if is_literal and raw_path and not raw_path.endswith(b"/" + last.encode()):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        body, policy = self.body_field, getattr(self.endpoint, "route_policy", NO_ROUTE)
        reads_body = body is not None or "requestBody" in (self.openapi_extra or {})
        # Whether a parameter exists is not ours to say for routes that pass requests on.
        is_described = self.include_in_schema and "openai" not in self.tags
        # The answers of a model say nothing of the library.
        hides_text = policy.scope == WRITE and policy.rate_limit != limits.CHAT
        names = frozenset(  # the fields of a query model are plain fields
            field.alias
            for field in get_flat_params(self.dependant)
            if not isinstance(field.field_info, (Path, Header, Cookie))
        )

        async def handle(request: Request) -> Response:
            if is_described and not self._is_lenient:
                check_query(request, names)
            if is_described and not reads_body and has_body(request):
                await check_no_body(request)
            if body is not None and (body.field_info.is_required() or has_body(request)):
                require_json(request)
            response = await handler(_StrictRequest(request.scope, request.receive))
            if hides_text and READ not in request.state.principal.scopes and response.body:
                return only_ids(response)
            return response

        return handle


class Routes(list[Route]):
    """The routes of a module, in a group of the API reference: its `tag`.

    They need these toolsets, unless they declare others. `document` is the parameter of their paths
    with the id of a document; see `RoutePolicy`.
    """

    def __init__(
        self, tag: str = "", *toolsets: str, document: str = "", route_class: type[Route] = Route
    ) -> None:
        super().__init__()
        self._tag = tag
        self._toolsets = toolsets
        self._document = document
        self._route_class = route_class

    def add(
        self,
        address: str,
        scope: str,
        *toolsets: str,
        is_hidden: bool = False,
        returns: Any = None,
        status: int = 200,
        existing: str = "",
        of_contract: bool = False,
        one_of: tuple[str, ...] = (),
        document: str = "",
        rate_limit: str = "",
        body_limit: str = "request_bytes",
        ends_streams: bool = False,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **details: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add the endpoint of `METHOD /path`. See `RoutePolicy` for who may use it.

        `returns` is the model of the response. A route with `existing` answers 201 if it creates
        something, and 200 if that exists; `existing` says what that means. Hidden routes, and those
        of modules without a tag, are not in the API reference. Clients of a contract that other
        programs have as well may send unknown parameters.
        """
        method, path = address.split(" ", 1)
        if self._document and f"{{{self._document}:" in path:
            document = document or self._document
        if not one_of:
            toolsets = toolsets or self._toolsets
        policy = RoutePolicy(
            scope, toolsets, one_of, document, rate_limit, body_limit, ends_streams
        )
        described = dict(responses or {})
        if existing:
            status = 201
            described[200] = {"model": returns, "description": existing}
        if returns is not None:
            described[status] = {"model": returns, **described.get(status, {})}
        options = {
            "tags": [self._tag],
            "include_in_schema": bool(self._tag) and not is_hidden,
            "status_code": status if status != 200 else None,
            "responses": described,
            "methods": method.split("|"),
            "is_lenient": of_contract,
            **details,
        }

        def declare(endpoint: Endpoint) -> Endpoint:
            set_policy(endpoint, policy)
            # `list_conversations` as "List conversations" and, for generated clients,
            # "listConversations".
            words = endpoint.__name__.split("_")
            options.setdefault("summary", " ".join(words).capitalize())
            options.setdefault("operation_id", words[0] + "".join(map(str.capitalize, words[1:])))
            self.append(self._route_class(path, endpoint, **options))
            return endpoint

        return declare


# -- what a request may contain ---


def check_query(request: Request, names: Collection[str]) -> None:
    """Raise Problem if the request has a query parameter that the route does not have."""
    fields = []
    for name in request.query_params:
        if name not in names:
            problem = "there is no such query parameter"
            similar = get_close_matches(name, names, 1)
            if similar:
                problem += f". Did you mean {similar[0]!r}?"
            fields.append({"name": truncate(printable(name), 80), "problem": problem})
    if fields:
        problems = "; ".join(f"{field['name']}: {field['problem']}" for field in fields[:10])
        advice = f"This route has: {', '.join(sorted(names))}."
        if not names:
            advice = "This route has no query parameters."
        stop = "" if problems.endswith("?") else "."
        raise Problem(400, f"{problems}{stop} {advice}", fields=fields[:10])


def has_body(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    return length != "0" or "transfer-encoding" in request.headers


async def check_no_body(request: Request) -> None:
    """Raise Problem for a body. An empty object says nothing, and some clients always send one."""
    if (await request.body()).strip() not in (b"", b"{}", b"null"):
        raise Problem(400, "This route reads no request body. Send parameters in the query.")


def content_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_json(request: Request) -> None:
    if content_type(request) != "application/json":
        raise HTTPException(415, "Send the body as JSON with 'Content-Type: application/json'.")


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= _MAX_INLINE_BYTES:
            return parse_json(body)
        return await run_in_threadpool(parse_json, body)


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
    level = [value]
    if body.count(b"[") + body.count(b"{") <= LIMITS.nesting:
        return value
    for _ in range(LIMITS.nesting):
        level = [
            part
            for item in level
            if isinstance(item, (dict, list))
            for part in (item.values() if isinstance(item, dict) else item)
        ]
    if level:
        raise HTTPException(400, _TOO_DEEP)
    return value


def reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Parsers disagree about which of two equal keys counts, so neither is accepted."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def only_ids(response: Response) -> Response:
    """What a key sees that writes and may not read: ids and numbers, no stored text."""

    def without_text(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_text(value[name]) for name in value.keys() & _TEXTLESS}
        if isinstance(value, list):
            return [without_text(part) for part in value]
        return value

    if response.media_type != "application/json":
        raise Forbidden("This key may not read, so it gets no pages.")
    return json_response(without_text(json.loads(bytes(response.body))), response.status_code)
