"""The settings page: what it shows to whom, and what its routes change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.backup.schedule import backup_overview
from recollect.serve.app import make_app
from recollect.serve.http.service import Service
from recollect.settings import default_user
from recollect.store.audit_log import RecordFilter, newest_records

ADDRESS = "http://127.0.0.1:8765"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

sqlite_only = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
NewKey = Callable[..., str]


@pytest.fixture
def sign_in(service: Service) -> Iterator[Callable[[str], TestClient]]:
    clients = []

    def open_browser(key: str) -> TestClient:
        headers = {"Accept": "text/html", "Origin": ADDRESS}
        client = TestClient(make_app(service), ADDRESS, headers=headers, follow_redirects=False)
        client.__enter__()
        clients.append(client)
        assert client.post("/login", data={"key": key}).status_code == 303
        return client

    yield open_browser
    for client in clients:
        client.__exit__(None, None, None)


def wait_for_task(service: Service, user: str, name: str) -> None:
    task = service.tasks.get(user, name)
    while task is None or task.is_running:
        threading.Event().wait(0.01)
        task = service.tasks.get(user, name)


# -- who sees what ---


def test_a_person_on_this_computer_sees_every_section(client: TestClient, place: str) -> None:
    page = client.get("/settings").text
    for title in ("Library", "Index", "Embeddings", "API keys", "Exclusions", "Backup", "Theme"):
        assert f">{title}</h2>" in page
    assert "Sessions</h2>" not in page, "nobody signs in without keys"
    assert "everybody on this computer has access" in page


@sqlite_only
def test_an_ordinary_user_sees_only_her_own_things(
    service: Service, new_user_key: NewKey, sign_in: Callable[[str], TestClient], place: str
) -> None:
    new_user_key("bob", name_of_key := ("read", "write"))
    admin = sign_in(new_user_key("root", ("read", "write", "admin")))
    ann = sign_in(new_user_key("ann", name_of_key))
    page = ann.get("/settings").text
    assert "Sessions</h2>" in page
    for hidden in (place, "user bob", "Backup</h2>", "Exclusions</h2>", "Create an API key"):
        assert hidden not in page
    for section in ("backup", "exclusions"):
        assert ann.get(f"/console/settings/{section}").status_code == 404
    for path in ("backup/start", "exclusions/add?pattern=x", "exclusions/remove?pattern=x"):
        assert ann.post(f"/console/settings/{path}").status_code == 403
    page = admin.get("/settings").text
    for visible in (place, "user bob", "user ann", "Backup</h2>", "Create an API key"):
        assert visible in page


@sqlite_only
def test_the_key_of_an_agent_opens_no_settings(client: TestClient, new_user_key: NewKey) -> None:
    key = new_user_key(agent=True, scopes=("read", "write", "admin"))
    headers = {"Authorization": f"Bearer {key}"}
    assert client.get("/settings", headers=headers).status_code == 403
    for path in ("exclusions/add?pattern=x", "backup/start", "secrets/scan"):
        assert client.post(f"/console/settings/{path}", headers=headers).status_code == 403


@sqlite_only
def test_other_sites_cannot_change_settings(
    new_user_key: NewKey, sign_in: Callable[[str], TestClient]
) -> None:
    admin = sign_in(new_user_key(scopes=("read", "write", "admin")))
    for path in (
        "/console/settings/exclusions/add?pattern=x",
        "/console/settings/backup/start",
        "/api/v1/index/pause",
        "/console/import-found?id=x",
    ):
        response = admin.post(path, headers={"Origin": "https://evil.example"})
        assert response.status_code == 403, path


# -- exclusions ---


@sqlite_only
def test_exclusions_are_previewed_added_removed_and_recorded(
    client: TestClient, service: Service, place: str
) -> None:
    with recollect.open(place, background=False) as library:
        for number, project in enumerate(("secret-one", "secret-two", "web")):
            message = {"role": "user", "content": "hello"}
            library.add_conversation(f"c{number}", messages=[message], project=project)
    path = "/console/settings/exclusions"
    preview = client.get(f"{path}/preview", params={"pattern": "secret-*"}).text
    assert "2 projects" in preview and "secret-two" in preview and ">web<" not in preview
    assert client.post(f"{path}/add", params={"pattern": " secret-* "}).status_code == 200
    assert client.post(f"{path}/add", params={"pattern": "# no"}).status_code == 400
    assert "secret-*" in client.get(path).text
    with recollect.open(place, background=False) as library:
        assert library.exclusion().patterns == ("secret-*",)
    assert client.post(f"{path}/remove", params={"pattern": "secret-*"}).status_code == 200
    assert "<code>secret-*</code>" not in client.get(path).text
    logs = recollect.places.audit_logs(place)
    name = recollect.places.audit_name(service.place, None)
    records = newest_records(logs, name, RecordFilter(("setting",)), 10)
    assert [record["operation"] for record in records] == ["remove exclusion", "add exclusion"]


# -- secrets and backups ---


def test_a_scan_counts_secrets_and_links_to_them(
    client: TestClient, service: Service, place: str
) -> None:
    with recollect.open(place, background=False) as library:
        message = {"id": "m1", "role": "user", "content": f"token {SECRET}"}
        library.add_conversation("c1", "Deploying", messages=[message])
        library.add_conversation("c2", "Also", messages=[{**message, "id": "m2"}])
    assert client.post("/console/settings/secrets/scan").status_code == 200
    wait_for_task(service, default_user(), "secrets")
    with recollect.open(place, background=False) as library:
        library.delete_conversation("c2")
    section = client.get("/console/settings/secrets").text
    assert "2 secrets" in section and "Deploying" in section
    assert "/c/c1?m=m1" in section
    assert SECRET not in section
    assert "Also" not in section, "what was deleted since is not linked"


@sqlite_only
def test_a_backup_is_made_on_request_and_the_next_one_is_announced(
    client: TestClient, service: Service, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(place, background=False) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "hello"}])
    assert "Not scheduled" in client.get("/console/settings/backup").text
    monkeypatch.setenv("RECOLLECT_BACKUP_EVERY", "12h")
    assert client.post("/console/settings/backup/start").status_code == 200
    wait_for_task(service, "", "backup")
    section = client.get("/console/settings/backup").text
    assert "verified" in section and "every 12 hours" in section and "1 backup" in section
    overview = backup_overview(service.place)
    assert overview.last is not None and overview.next_at is not None
    assert (overview.next_at - overview.last.created_at).total_seconds() == 12 * 3600
