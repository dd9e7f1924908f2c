"""The service matches its OpenAPI description: Schemathesis sends valid and invalid requests."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, cast

import people
import pytest
import upstream
from asgi import ADDRESS
from hypothesis import HealthCheck, Phase, given, settings
from lazy_import import LazyModule
from people import STORES, World
from starlette.routing import Route
from starlette.testclient import TestClient

from recollect.capture.upstream import Upstream
from recollect.serve.app import make_app
from recollect.serve.http.service import Service

jsonschema: Any = LazyModule("jsonschema")
requests: Any = LazyModule("requests")
schemathesis: Any = LazyModule("schemathesis")
STREAM = "GET /api/events"  # never ends; it has its own tests
OPERATIONS = sorted(
    f"{method} {route.path}".replace(":id}", "}").replace(":path}", "}")
    for route in make_app(cast(Service, None)).routes
    if isinstance(route, Route) and route.include_in_schema
    for method in route.methods or ()
)
IS_THOROUGH = settings.default.max_examples > 100
"""In `make test-all`."""
EXAMPLES = settings(
    max_examples=max(1, settings.default.max_examples // 20),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)


@functools.cache
def description() -> dict[str, Any]:
    return make_app(cast(Service, None)).openapi()


@functools.cache
def schema() -> Any:
    return schemathesis.openapi.from_dict(description())


@functools.cache
def checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    return [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]


@functools.cache
def error_validator() -> Any:
    return jsonschema.Draft202012Validator(description()["components"]["schemas"]["Error"])


@pytest.fixture(scope="module", params=STORES)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with upstream.running() as model, people.world(request, tmp_path_factory) as world:
        world.service.__dict__["upstream"] = Upstream(model.address, upstream.MODEL)
        yield world


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with people.listening(world) as address:
        yield address


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def credentials(world: World, user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {world.key(user, ('read', 'write', 'admin'))}"}


def create_documents(world: World, user: str) -> dict[str, str]:
    """Create a conversation, a thread and a note; return the path parameters that name them."""
    client = world.client(user)
    messages = [
        {"id": "m1", "role": "user", "content": "Hello"},
        {"id": "m2", "role": "assistant", "content": "Hi"},
    ]
    conversation = client.post(
        "/conversations", json={"session_id": "s", "title": "T", "messages": messages}
    ).json()
    thread = client.post("/api/threads", json={"topic": "t"}).json()["id"]
    client.post(
        f"/api/threads/{thread}/messages",
        json={"author": "a", "content": "Hello", "human_only": True},
    )
    note = client.post("/api/knowledge/notes", json={"title": "N", "content": "Hello"}).json()["id"]
    ids = {"conversation_id": conversation["id"], "session_id": "s", "thread_id": thread}
    return ids | {"source": "notes", "item_id": note}


def operations() -> list[Any]:
    """A few operations; `make test-all` tries all of them, with many more examples."""
    names = [operation for operation in OPERATIONS if operation != STREAM]
    quick = names[::18]
    full = [pytest.param(name, marks=pytest.mark.full) for name in names if name not in quick]
    return [*quick, *full]


@pytest.mark.parametrize("operation", operations())
def test_every_answer_of_a_route_matches_its_description(
    world: World, address: str, session: requests.Session, user: str, operation: str
) -> None:
    method, path = operation.split(" ")
    headers = credentials(world, user)
    documents = create_documents(world, user)
    existing = {name: id_ for name, id_ in documents.items() if f"{{{name}}}" in path}
    modes = schemathesis.GenerationMode
    runs = [(modes.POSITIVE, {})]
    if existing:
        runs.append((modes.POSITIVE, existing))
    if IS_THOROUGH and accepts_other_types(description()["paths"][path][method.lower()]):
        runs.append((modes.NEGATIVE, existing))

    for mode, ids in runs:

        @EXAMPLES
        @given(schema()[path][method].as_strategy(mode, path_parameters=ids or None))
        def check(case: Any) -> None:
            answer = case.call(base_url=address, session=session, headers=headers)
            case.validate_response(answer, checks=checks(), headers=headers)
            is_proxy = path.startswith("/v1/")  # passes on the errors of the model
            if answer.status_code >= 400 and not is_proxy:
                assert_error_shape(answer.json(), answer.status_code)

        check()


def accepts_other_types(operation: dict[str, Any]) -> bool:
    """Whether a parameter or the body must be something other than a string."""
    schemas = [parameter["schema"] for parameter in operation.get("parameters", ())]
    return "requestBody" in operation or any(
        schema != {**schema, "type": "string"} for schema in schemas
    )


def test_every_route_is_described() -> None:
    for operation in OPERATIONS:
        method, path = operation.split(" ")
        entry = description()["paths"][path][method.lower()]
        assert entry["summary"], operation
        assert entry["tags"], operation
        for parameter in entry.get("parameters", ()):
            assert parameter["in"] != "query" or parameter.get("description"), operation
        responses = entry["responses"].items()
        answers = [answer for status, answer in responses if status.startswith("2")]
        assert answers, operation
        assert all(answer["content"] for answer in answers), operation


# -- answers -------------------------------------------------------------------


# -- errors --------------------------------------------------------------------


def assert_error_shape(body: Any, status: int) -> None:
    assert body.keys() == {"success", "detail", "error", "request_id"}
    assert body["success"] is False
    error = body["error"]
    assert error.keys() == {"code", "message", "details", "timestamp", "retry_after"}
    assert body["detail"] == error["message"]
    assert error["details"]["status_code"] == status
    assert error["details"].keys() <= {"status_code", "path", "fields"}
    error_validator().validate(body)
    text = json.dumps(body)
    for leak in (
        "Traceback",
        'File \\"',
        "sqlite3",
        "psycopg",
        "apsw.",
        "no such column",
        "syntax error at",
    ):
        assert leak not in text


def with_ids(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "1", path)


def test_every_route_refuses_strangers_with_the_same_error(world: World) -> None:
    world.key("somebody")  # without any key, everyone on this computer is let in
    for number, operation in enumerate(OPERATIONS):
        method, path = operation.split(" ")
        # Each from its own address, because an address that fails too often is blocked.
        stranger = TestClient(world, ADDRESS, client=(f"127.0.1.{number}", 50_000))
        for status, headers in (
            (401, {}),
            (401, {"Authorization": "Bearer rk_000000000000_" + "x" * 43}),
            (421, {"Host": "evil.example"}),
            (403, {"Origin": "https://evil.example"}),
        ):
            if status == 401 and path in ("/healthz", "/readyz"):
                continue
            answer = stranger.request(method, with_ids(path), headers=headers)
            assert answer.status_code == status, (operation, answer.text)
            assert_error_shape(answer.json(), status)
