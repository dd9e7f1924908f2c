"""Requests that name a URL: the server stores it and never opens it."""

from __future__ import annotations

import select
import socket
from pathlib import Path

import pytest
from http_service import server


def test_no_field_with_a_url_makes_the_server_connect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, server(tmp_path) as instance:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/secret"
        client = instance.client()
        message = {"role": "user", "content": f"![picture]({url}) {url}"}
        attachments = [{"url": url, "name": "a.png"}]
        responses = [
            client.post("/api/knowledge/media", json={"title": "t", "content": "c", "url": url}),
            client.post("/api/knowledge/notes", json={"title": url, "content": f"![x]({url})"}),
            client.post("/conversations", json={"id": "c", "messages": [message]}),
            client.post("/conversations/c/messages", json={**message, "attachments": attachments}),
            client.post("/api/threads", json={"topic": url, "metadata": {"webhook": url}}),
        ]
        assert [response.status_code for response in responses] == [201] * len(responses)
        assert client.get("/c/c").status_code == 200
        assert client.get(f"/api/v1/search?q={url}").status_code == 200
        assert client.get(f"/login?next={url}").status_code == 200
        readable, _, _ = select.select([listener], [], [], 0)
        assert not readable, "the server connected to an address from a request"


@pytest.mark.parametrize(
    "scheme", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"]
)
def test_a_dangerous_url_is_never_a_link(tmp_path: Path, scheme: str) -> None:
    with server(tmp_path) as instance:
        client = instance.client()
        item = client.post(
            "/api/knowledge/media", json={"title": "t", "content": f"[x]({scheme})", "url": scheme}
        )
        if item.is_success:
            page = client.get(f"/knowledge/media/{item.json()['id']}")
            assert page.status_code == 200
            assert f'href="{scheme}' not in page.text
            assert f'src="{scheme}' not in page.text
