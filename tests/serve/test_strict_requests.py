"""No route ignores what a request says: unknown parameters and unread bodies are errors."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from asgi import MakeKey
from services import description as description_of_the_api
from starlette.testclient import TestClient

from recollect.serve.console.docs_page import example_of

OF_CONTRACTS = {
    "listConversations",
    "searchMessages",
    "getConversation",
    "updateConversation",
    "deleteConversation",
    "exportConversation",
    "searchThreads",
}


@functools.cache
def description() -> dict[str, Any]:
    return description_of_the_api()


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in description()["paths"].items()
        for method, operation in methods.items()
        if "openai" not in operation["tags"]
    ]


def address(path: str) -> str:
    """The path with a value for every parameter."""
    for name in ("source", "kind"):
        path = path.replace(f"{{{name}}}", "notes")
    for name in ("number", "job"):
        path = path.replace(f"{{{name}}}", "1")
    while "{" in path:
        start, end = path.index("{"), path.index("}")
        path = f"{path[:start]}x{path[end + 1 :]}"
    return path


def headers(operation: dict[str, Any]) -> dict[str, str]:
    for media_type in operation.get("requestBody", {}).get("content", {}):
        return {"Content-Type": media_type}
    return {}


def test_routes_of_contracts_ignore_unknown_parameters_and_a_final_slash(
    client: TestClient,
) -> None:
    client.post("/conversations", json={"id": "c1", "title": "One"})
    client.post("/conversations", json={"id": "c1/", "title": "Two"})
    assert client.get("/conversations/?page=1").json()["total"] == 2
    assert client.get("/conversations/c1/?_=17").json()["title"] == "One"
    assert client.get("/conversations/c1%2F?_=17").json()["title"] == "Two"
    assert client.get("/conversations/search/messages/?query=x&page=1").json()["total"] == 0
    assert client.get("/api/search/?q=x&page=1").json()["total"] == 0
    assert client.put("/conversations/c1/?title=New&x=1").json()["success"]
    assert client.post("/conversations/c1/export/?format=txt&x=1").json()["format"] == "txt"
    assert client.delete("/conversations/c1/?x=1").json()["success"]
    assert client.get("/conversations/c1%2F").status_code == 200


def test_every_route_names_an_unknown_query_parameter(client: TestClient, key: MakeKey) -> None:
    credentials = key(("read", "write", "admin"))
    for method, path, operation in operations():
        if operation["operationId"] in OF_CONTRACTS:
            continue
        response = client.request(
            method,
            address(path),
            params={"flavour": "mint"},
            headers=credentials | headers(operation),
            content=b"{}" if "requestBody" in operation else None,
        )
        assert response.status_code == 400, (method, path, response.text)
        assert response.json()["detail"].startswith("flavour: there is no such query parameter")
        assert response.json()["error"]["details"]["fields"][0]["name"] == "flavour"


def test_every_route_without_a_body_refuses_one(client: TestClient, key: MakeKey) -> None:
    credentials = key(("read", "write", "admin"))
    for method, path, operation in operations():
        if "requestBody" in operation:
            continue
        response = client.request(
            method, address(path), json={"flavour": "mint"}, headers=credentials
        )
        assert response.status_code == 400, (method, path, response.text)
        assert "reads no request body" in response.json()["detail"]


def test_a_misspelled_parameter_is_suggested(client: TestClient) -> None:
    response = client.get("/api/threads", params={"limt": "1"})
    assert response.json()["detail"].startswith(
        "limt: there is no such query parameter. Did you mean 'limit'?"
    )
    response = client.get("/api/v1/search", params={"q": "zebra", "tags": "a"})
    assert "Did you mean 'tag'?" in response.json()["detail"]


def test_an_empty_object_is_no_body(client: TestClient) -> None:
    conversation = client.post("/conversations", json={"title": "T"}).json()["id"]
    headers = {"Content-Type": "application/json"}
    for body, status in ((b"", 200), (b"{}", 200), (b"null", 200), (b"[1]", 400), (b"no", 400)):
        path = f"/conversations/{conversation}/export"
        assert client.post(path, content=body, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/conversations", {"titel": "x"}, "titel"),
        (
            "/conversations/messages",
            {"session_id": "s", "messages": [{"role": "user", "contents": "x", "content": "y"}]},
            "messages.0.contents",
        ),
    ],
)
def test_an_unknown_field_of_a_body_is_an_error(
    client: TestClient, path: str, body: dict[str, Any], field: str
) -> None:
    response = client.post(path, json=body)
    assert (response.status_code, response.json()["detail"]) == (
        400,
        f"{field}: there is no such field",
    )


OPERATION_IDS = """
addMessage changeConversation chat checkHealth checkReadiness createCharacter createCompletion
createConversation createEmbeddings createKey createMedia createNote createPrompt createResponse
deleteConversation deleteItem deleteThread exportConversation exportItem findRelated
followEvents forget getActivity getConversation getConversationBySession getImport getIndex
getItem getItemWithBody getMetrics getModel getStats getThread getTranscript listAuditRecords
listChanges listConversations listFacets listImports listItems listKeys listMediaTypes
listMessages listModels listReceipts listThreadMessages listThreads openThread
pauseIndex postThreadMessage restoreConversation restoreItem resumeIndex revokeKey rotateKey
saveInteraction search searchKnowledge searchKnowledgeSource searchKnowledgeWithBody
searchMessages searchThreads startImport undoChange undoImport updateCharacter
updateConversation updateMedia updateNote updatePrompt verifyAuditRecords
"""


def test_clients_can_rely_on_the_ids_of_operations() -> None:
    ids = [
        operation["operationId"]
        for operations in description()["paths"].values()
        for operation in operations.values()
    ]
    assert sorted(ids) == OPERATION_IDS.split()


def test_the_examples_of_the_reference_are_valid(client: TestClient, key: MakeKey) -> None:
    """A body from the reference is accepted, unless it names something that is not there."""
    credentials = key(("read", "write", "admin"))
    for method, path, operation in operations():
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content or path == "/chat":
            continue
        body = example_of(description(), content["application/json"]["schema"])
        response = client.request(method, address(path), json=body, headers=credentials)
        assert response.status_code != 415
        if response.status_code == 400:
            assert "fields" not in response.json()["error"]["details"], (path, body, response.text)
