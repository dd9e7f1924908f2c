"""All errors have the same body."""

from __future__ import annotations

import errno
import re
from datetime import datetime
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from starlette.testclient import TestClient

from recollect import Library, errors
from recollect.language.queries.query import MalformedQuery
from recollect.serve.http.logs import JsonFormatter
from recollect.serve.http.responses import ERROR_SCHEMA, Problem
from recollect.serve.identity.principal import Forbidden

pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)

CANARY = "zebra-canary"


def assert_error_body(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert list(body) == ["success", "detail", "error", "request_id"]
    assert body["success"] is False
    assert list(body["error"]) == ["code", "message", "details", "timestamp", "retry_after"]
    assert body["error"]["code"] == code
    assert body["detail"] == body["error"]["message"] != ""
    assert body["error"]["details"]["status_code"] == status
    assert body["error"]["details"]["path"].startswith("/")
    assert datetime.fromisoformat(body["error"]["timestamp"]).tzinfo is not None
    assert body["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    retry = answer.headers.get("retry-after")
    assert body["error"]["retry_after"] == (int(retry) if retry else None)
    return body


def add_failing_route(app: FastAPI, error: BaseException) -> None:
    @app.get("/fails")
    def fails() -> None:
        raise error


def disk_full_error() -> Exception:
    return errors.StorageFull(f"The disk is full: nothing was written to {CANARY}.")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.NotFound("Conversation not found"), 404, "NOT_FOUND"),
        (errors.InvalidInput("limit: no"), 400, "VALIDATION_ERROR"),
        (MalformedQuery("quotes"), 400, "VALIDATION_ERROR"),
        (errors.UnknownFormat("No importer knows this."), 400, "VALIDATION_ERROR"),
        (errors.UnsafeFile("A bomb."), 400, "VALIDATION_ERROR"),
        (errors.Conflict("It holds something else."), 409, "CONFLICT"),
        (Forbidden("This key may not write."), 403, "FORBIDDEN"),
        (Problem(502, "The model did not answer."), 502, "UPSTREAM_ERROR"),
        (Problem(415, "JSON, please."), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (Problem(409, "Twice.", code="TWICE"), 409, "TWICE"),
        (HTTPException(422, "Wrong."), 400, "VALIDATION_ERROR"),
        (HTTPException(418, "A teapot."), 418, "IM_A_TEAPOT"),
    ],
)
def test_messages_meant_for_clients_are_returned(
    app: FastAPI, client: TestClient, error: Exception, status: int, code: str
) -> None:
    add_failing_route(app, error)
    message = getattr(error, "detail", str(error))
    assert assert_error_body(client.get("/fails"), status, code)["detail"] == message


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.StoreBusy(f"/home/{CANARY} is busy"), 503, "UNAVAILABLE"),
        (errors.StoreUnavailable(f"{CANARY}.example went away"), 503, "UNAVAILABLE"),
        (errors.DamagedLibrary(f"/home/{CANARY}"), 500, "INTERNAL_ERROR"),
        (errors.NewerLibrary(f"/home/{CANARY}"), 500, "INTERNAL_ERROR"),
        (errors.RecollectError(f"The database reported: {CANARY}"), 500, "INTERNAL_ERROR"),
        (ValueError(CANARY), 500, "INTERNAL_ERROR"),
        (RecursionError(CANARY), 500, "INTERNAL_ERROR"),
        (OSError(errno.ENOSPC, f"No space left on {CANARY}"), 507, "STORAGE_FULL"),
        (disk_full_error(), 507, "STORAGE_FULL"),
    ],
)
def test_internal_messages_are_logged_but_not_returned(
    app: FastAPI,
    client: TestClient,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    code: str,
) -> None:
    add_failing_route(app, error)
    answer = client.get("/fails")
    body = assert_error_body(answer, status, code)
    assert CANARY not in answer.text
    assert (body["error"]["retry_after"] is not None) == (status == 503)
    (record,) = [
        r for r in caplog.records if r.message == ("unavailable" if status == 503 else "failed")
    ]
    assert record.fields["request_id"] == body["request_id"]  # type: ignore[attr-defined]
    # Operators need the messages of the store. Messages of other code may quote contents.
    assert (CANARY in JsonFormatter().format(record)) == isinstance(error, errors.RecollectError)


def test_a_search_timeout_has_the_message_of_its_contract(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(*_: object, **__: object) -> None:
        raise errors.SearchTimeout("The search took too long.")

    for method in ("search", "match_expression"):
        monkeypatch.setattr(Library, method, time_out)
    for path, message in (
        ("/api/v1/search?q=a", "The search took too long."),
        ("/api/search?q=a", "Database operation timeout"),
    ):
        assert assert_error_body(client.get(path), 503, "UNAVAILABLE")["detail"] == message


def test_unknown_paths_and_methods_have_the_error_body(client: TestClient) -> None:
    assert_error_body(client.get("/nowhere/at/all"), 404, "NOT_FOUND")
    assert_error_body(client.patch("/healthz"), 405, "METHOD_NOT_ALLOWED")
    assert_error_body(client.request("BREW", "/healthz"), 405, "METHOD_NOT_ALLOWED")
    assert_error_body(client.get("/healthz", headers={"Host": "evil"}), 421, "MISDIRECTED_REQUEST")
    assert_error_body(
        client.get("/healthz", headers={"Origin": "https://evil.example"}), 403, "FORBIDDEN"
    )


def test_invalid_fields_are_named_without_their_values(app: FastAPI, client: TestClient) -> None:
    @app.post("/typed/{number}")
    def typed(number: int, body: dict[str, int], limit: int = 1) -> None: ...

    answer = client.post(f"/typed/{CANARY}?limit={CANARY}", json={"a": CANARY})
    body = assert_error_body(answer, 400, "VALIDATION_ERROR")
    fields = body["error"]["details"]["fields"]
    assert [field["name"] for field in fields] == ["number", "limit", "a"]
    assert all(re.match("Input should be a valid integer", field["problem"]) for field in fields)
    assert CANARY not in answer.text.replace(f"/typed/{CANARY}", "")  # the path is the client's own


def test_a_response_that_breaks_off_is_ended_and_logged(
    app: FastAPI, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    from starlette.responses import StreamingResponse

    @app.get("/breaks")
    async def breaks() -> StreamingResponse:
        async def parts() -> Any:
            yield b"one"
            raise ValueError(CANARY)

        return StreamingResponse(parts())

    assert client.get("/breaks").content == b"one"
    assert "failed" in [r.message for r in caplog.records]
    assert CANARY not in caplog.text


def test_openapi_describes_the_error_body_for_every_operation(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    assert api["components"]["schemas"]["Error"] == ERROR_SCHEMA
    assert "HTTPValidationError" not in api["components"]["schemas"]
    operations = [o for path in api["paths"].values() for o in path.values()]
    assert operations
    for operation in operations:
        assert "422" not in operation["responses"]
        assert operation["responses"]["default"]["content"]["application/json"]["schema"][
            "$ref"
        ].endswith("/Error")
