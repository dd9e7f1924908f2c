"""Pages and fragments, as a browser without script sees them, on both stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import recollect
from recollect.language.text import storable
from recollect.serve.console.templating import ago, project, size
from recollect.serve.http import assets

PART = {"X-Recollect-Fragment": "part"}
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def shown(html: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_an_empty_library_says_how_to_fill_it(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "Nothing here yet" in answer.text
    assert "recollect import ~/.codex/sessions" in answer.text


def test_the_list_shows_what_is_known_of_a_conversation(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "moss",
        "Moss in the rain",
        messages=[{"role": "user", "content": "hello"}],
        project="garden",
        metadata={"tags": ["green", "wet"]},
    )
    said = shown(client.get("/").text)
    assert "Moss in the rain now Recollect 1 message garden green wet" in said
    assert "1 conversation, kept word for word" in said


def test_rows_come_in_pieces_with_the_true_total(
    client: TestClient, library: recollect.Library
) -> None:
    for n in range(7):
        library.add_conversation(
            f"c{n}", f"Title {n}", messages=[{"role": "user", "content": f"text {n}"}]
        )
    piece = client.get("/console/rows?offset=3&limit=2", headers=PART).text
    assert 'data-offset="3" data-total="7"' in piece
    assert re.findall(r'aria-posinset="(\d)"', piece) == ["4", "5"]
    assert len(re.findall("data-id=", piece)) == 2


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("namespace=work", {"a"}),
        ("origin=recollect", {"a", "b"}),
        ("origin=codex", set()),
        ("tag=green", {"b"}),
        ("role=assistant", {"b"}),
        ("after=2026-02-01", {"b"}),
        ("before=2026-01-31", {"a"}),
        ("title=alp", {"a"}),
        ("namespace=work&tag=green", set()),
        ("namespace=&origin=&after=", {"a", "b"}),
    ],
)
def test_the_list_is_filtered(
    client: TestClient, library: recollect.Library, asked: str, found: set[str]
) -> None:
    library.add_conversation(
        "a",
        "Alpha",
        messages=[{"role": "user", "content": "x", "created_at": "2026-01-10"}],
        project="work",
    )
    library.add_conversation(
        "b",
        "Beta",
        messages=[{"role": "assistant", "content": "y", "created_at": "2026-02-10"}],
        metadata={"tags": ["green"]},
    )
    assert (
        set(re.findall(r'data-id="(\w)"', client.get(f"/console/rows?{asked}", headers=PART).text))
        == found
    )


@pytest.mark.both_stores
def test_a_search_works_without_script(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation(
        "tea", "On tea", messages=[{"role": "user", "content": "Sencha at <70> degrees"}]
    )
    html = client.get("/?q=sencha").text
    assert "<mark>Sencha</mark> at &lt;70&gt; degrees" in html
    assert 'value="sencha"' in html
    assert '<h1 role="status" aria-live="polite">1 message' in html


def test_no_results_say_what_was_searched(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation(
        "tea", "On tea", messages=[{"role": "user", "content": "Sencha"}], project="kitchen"
    )
    said = shown(
        client.get("/console/hits?q=nowhere&namespace=kitchen&role=user", headers=PART).text
    )
    assert "No results for nowhere" in said
    assert "Searched 1 conversation by words" in said
    assert "only in the project kitchen, said by user" in said


def test_hits_lead_to_the_message_and_to_where_it_came_from(
    client: TestClient, library: recollect.Library
) -> None:
    document = recollect.Document(
        "chatgpt",
        "5d2f9c1e-aaaa-4bbb-8ccc-123456789012",
        "Pears",
        passages=(recollect.Passage("m/1", "user", "a pear tree"),),
    )
    library.store.save([document])
    html = client.get("/console/hits?q=pear", headers=PART).text
    assert "/c/5d2f9c1e-aaaa-4bbb-8ccc-123456789012?m=m%2F1&amp;q=pear" in html
    assert "https://chatgpt.com/c/5d2f9c1e-aaaa-4bbb-8ccc-123456789012" in html


def test_hits_by_conversation_show_what_else_is_in_it(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "pears", "Pears", messages=[{"role": "user", "content": f"pear {n}"} for n in range(4)]
    )
    html = client.get("/console/hits?q=pear&group=conversation", headers=PART).text
    assert "1 conversation" in shown(html)
    assert "Also in this conversation" in html


@pytest.mark.parametrize(
    "id", ["a/b", "a b?c#d&e=f", "..", ".", "日本", "a\nb", "'\"<>", "a//b/", "search/messages"]
)
def test_ids_may_hold_any_character(
    client: TestClient, library: recollect.Library, id: str
) -> None:
    library.add_conversation(id, "Odd", messages=[{"role": "user", "content": "still here"}])
    link = re.search(r'class="row" href="([^"]*)"', client.get("/").text)
    assert link
    assert "still here" in client.get(unescape(link[1])).text


def test_a_window_of_a_long_conversation(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation(
        "long", "Long", messages=[{"role": "user", "content": f"number {n}"} for n in range(300)]
    )
    html = client.get("/c/long").text
    assert re.findall(r'data-index="(\d+)"', html) == [str(n) for n in range(40)]
    around = client.get("/c/long?m=long:150").text
    numbers = [int(n) for n in re.findall(r'data-index="(\d+)"', around)]
    assert numbers[0] < 150 < numbers[-1]
    assert len(numbers) == 40
    assert around.count("data-hit-here") == 1
    piece = client.get("/console/messages?id=long&start=290&limit=40", headers=PART).text
    assert 'data-start="290" data-end="300" data-total="300"' in piece


def test_a_message_that_is_gone_is_not_insisted_on(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c", "C", messages=[{"role": "user", "content": "here"}])
    assert "here" in client.get("/c/c?m=gone").text


def test_branches_can_be_switched(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation(
        "tree",
        "Tree",
        messages=[
            {"id": "q", "role": "user", "content": "question"},
            {"id": "a1", "role": "assistant", "content": "first answer", "parent": "q"},
            {"id": "a2", "role": "assistant", "content": "second answer", "parent": "q"},
        ],
    )
    html = client.get("/c/tree").text
    assert "second answer" in html
    assert "first answer" not in html
    assert "/c/tree?m=a1" in html
    assert '<span class="which">2/2</span>' in html
    other = client.get("/c/tree?m=a1").text
    assert "first answer" in other
    assert "second answer" not in other


def test_what_is_beside_the_conversation_is_collapsed(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "tools",
        "Tools",
        messages=[
            {"role": "system", "content": "the secret prompt", "visibility": "hidden"},
            {"role": "assistant", "content": "I wonder", "type": "thinking"},
            {
                "role": "assistant",
                "content": '{"q": "*x*"}',
                "type": "tool_call",
                "tool": "look_up",
            },
            {"role": "tool", "content": "found *it*", "type": "tool_result", "tool": "look_up"},
            {
                "role": "assistant",
                "content": "Here.",
                "model": "model-7",
                "attachments": [{"name": "plan.pdf"}],
                "citations": [
                    {"title": "A book", "url": "https://a.example"},
                    {"metadata": {"title": "Deep"}},
                    {"n": 1},
                ],
            },
        ],
    )
    html = client.get("/c/tools").text
    assert html.count('<details class="collapsed">') == 4
    assert "Hidden system" in html
    assert "found *it*" in html
    assert "model-7" in html
    assert "plan.pdf" in html
    assert "A book (https://a.example)" in html
    assert "<bdi>Deep</bdi>" in html
    assert "{&#34;n&#34;: 1}" in html


def test_a_long_message_is_folded_and_unfolds(
    client: TestClient, library: recollect.Library
) -> None:
    text = "\n".join(f"line {n} of many" for n in range(4_000))
    library.add_conversation("big", "Big", messages=[{"id": "m", "role": "user", "content": text}])
    html = client.get("/c/big").text
    assert "line 3999" not in html
    assert re.search(r"Show all [\d,]+ characters more", html)
    assert "line 3999 of many" in client.get("/console/message?id=big&m=m", headers=PART).text
    source = client.get("/console/source?id=big&m=m")
    assert source.text == text
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get("/console/source?id=big&m=gone", headers=PART).status_code == 404


def test_matches_in_a_conversation_lead_to_one_another(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "c",
        "C",
        messages=[
            {"id": f"m{n}", "role": "user", "content": f"a pear {n}" if n % 2 else "an apple"}
            for n in range(8)
        ],
    )
    html = client.get("/console/matches?id=c&q=pear&m=m3", headers=PART).text
    assert "2 of 4 in this conversation" in shown(html).replace(" – ", " ")
    assert "/c/c?m=m1&amp;q=pear" in html
    assert "/c/c?m=m5&amp;q=pear" in html


def test_activity_is_drawn_with_a_table_beside_it(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "c",
        "C",
        project="garden",
        messages=[
            {"role": "user", "content": "x", "created_at": "2026-01-10T10:00:00Z"},
            {
                "role": "assistant",
                "content": "y",
                "created_at": "2026-03-10T11:00Z",
                "model": "model-7",
                "tool": "shears",
            },
        ],
    )
    html = client.get("/activity").text
    for part in (
        "2026-01: 1",
        "2026-03: 1",
        "model-7: 1",
        "shears: 1",
        "garden: 2",
        "Recollect: 2",
        "By hour",
        "10: 1",
    ):
        assert part in html
    assert html.count("<figure") == html.count("<figcaption>") == html.count("<table>") == 7
    assert "since January 2026" in html


def test_activity_of_nothing(client: TestClient) -> None:
    assert "nothing to draw" in client.get("/activity").text


NAMES: list[tuple[str, dict[str, Any]]] = [
    ("content", {"content": NASTY}),
    ("author", {"author": NASTY}),
    ("model", {"model": NASTY}),
    ("tool", {"tool": NASTY, "type": "tool_call"}),
    ("attachment", {"attachments": [{"name": NASTY}]}),
    ("citation", {"citations": [NASTY]}),
    ("id", {"id": NASTY}),
]


@pytest.mark.parametrize("fields", [fields for _, fields in NAMES], ids=[name for name, _ in NAMES])
def test_nothing_stored_becomes_markup(
    client: TestClient, library: recollect.Library, fields: dict[str, Any]
) -> None:
    message = {"role": "assistant", "content": "a pear", **fields}
    library.add_conversation(
        f"c{NASTY}", NASTY, messages=[message], project=NASTY, metadata={"tags": [NASTY]}
    )
    pages = [
        "/",
        "/?q=pear",
        f"/?q={quote(NASTY)}",
        f"/c/{quote(f'c{NASTY}', safe='')}?q={quote(NASTY)}",
        "/activity",
        f"/?tag={quote(NASTY)}&title={quote(NASTY)}",
        f"/login?next={quote(NASTY)}",
    ]
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "style=" not in answer.text
        assert not re.search(r"<[^>]* on\w+=", re.sub(r'"[^"]*"', '""', answer.text))


def test_text_that_utf8_cannot_hold_is_shown(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "c", "t\ud800\x00", messages=[{"role": "user", "content": "lone \udfff \x00 here"}]
    )
    html = client.get("/c/c").text
    assert "lone \ufffd \ufffd here" in html
    assert storable("t\ud800\x00") in html


def test_errors_are_pages_for_people_and_json_for_the_script(client: TestClient) -> None:
    answer = client.get("/c/nowhere")
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text
    answer = client.get("/console/messages?id=nowhere", headers={"Accept": "*/*", **PART})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "NOT_FOUND"
    assert client.get("/?after=nonsense").status_code == 400
    assert client.get("/?q=" + "x" * 5000).status_code == 400


def test_the_main_part_alone_is_for_the_script(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c", "C", messages=[{"role": "user", "content": "here"}])
    html = client.get("/c/c", headers={"X-Recollect-Fragment": "main"}).text
    assert "<html" not in html
    assert 'data-title="C · Recollect"' in html


def test_static_files_may_be_kept_for_ever(client: TestClient) -> None:
    for address in set(re.findall(r'"(/static/[^"]+)"', client.get("/").text)):
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert (
            client.get(address, headers={"If-None-Match": answer.headers["etag"]}).status_code
            == 304
        )
    assert (
        client.get(assets.url("console.js")).headers["content-type"]
        == "text/javascript; charset=utf-8"
    )
    assert client.get("/static/old/console.js").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["../pages.py", "..%2fpages.py", "%2e%2e/pages.py", "pages.py", "library.db", ""]
)
def test_only_static_files_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{assets.VERSION}/{name}").status_code == 404


def test_no_page_asks_another_server_for_anything(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c", "C", messages=[{"role": "user", "content": "here"}])
    for page in ("/", "/c/c", "/activity", "/imports", "/login"):
        html = client.get(page).text
        assert all(
            a.startswith("/static/") for a in re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', html)
        )
        assert "<script>" not in html
    scripts = "".join(p.read_text() for p in (assets.FOLDER / "static").iterdir())
    assert "http://" not in scripts.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in scripts


# -- signing in ---


def test_signing_in_with_a_key(client: TestClient, new_user_key: Callable[..., str]) -> None:
    key = new_user_key()
    answer = client.get("/c/x?q=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fc%2Fx%3Fq%3D1"
    form = client.get(answer.headers["location"]).text
    assert 'value="/c/x?q=1"' in form
    answer = client.post("/login", data={"key": key, "next": "/imports"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/imports"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/imports").status_code == 200
    assert "Sign out" in client.get("/").text
    answer = client.post("/logout", headers={"Origin": "http://127.0.0.1:8765"})
    assert answer.headers["location"] == "/login"
    assert client.get("/imports").status_code == 303


def test_a_wrong_key_is_told_and_nothing_is_kept(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    new_user_key()
    answer = client.post("/login", data={"key": "rk_000000000000_nothing", "next": "/imports"})
    assert answer.status_code == 401
    assert "not valid" in answer.text
    assert "set-cookie" not in answer.headers
    assert client.post("/login", data={"next": "/"}).status_code == 401


def test_after_signing_in_one_stays_here(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    answer = client.post("/login", data={"key": new_user_key(), "next": "//evil.example/"})
    assert answer.headers["location"] == "/"


def test_an_agent_does_not_read_what_is_for_people(
    client: TestClient, library: recollect.Library, new_user_key: Callable[..., str]
) -> None:
    library.add_conversation(
        "c",
        "C",
        messages=[
            {"role": "user", "content": "the password is swordfish", "visibility": "human_only"}
        ],
    )
    agent, person = new_user_key(agent=True), new_user_key()
    for page in (
        "/c/c",
        "/?q=swordfish",
        "/console/messages?id=c",
        "/console/hits?q=swordfish",
        "/console/source?id=c&m=c:0",
        "/console/message?id=c&m=c:0",
    ):
        for key, allowed in ((agent, False), (person, True)):
            html = client.get(page, headers={"Authorization": f"Bearer {key}"}).text
            assert ("password is" in html) is allowed, page
    assert "people only" in client.get("/c/c", headers={"Authorization": f"Bearer {person}"}).text


def test_a_key_that_may_not_read_sees_nothing(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    headers = {"Authorization": f"Bearer {new_user_key(scopes=('write',))}"}
    for page in ("/", "/c/x", "/activity", "/imports", "/console/rows", "/console/hits?q=x"):
        assert client.get(page, headers=headers).status_code == 403


# -- small things ---


def test_times_are_short() -> None:
    now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    steps = [
        (timedelta(seconds=5), "now"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(days=2), "Fri"),
        (timedelta(days=40), "6 Oct"),
        (timedelta(days=700), "15 Dec 2024"),
        (timedelta(days=-3), "18 Nov"),
    ]
    assert [ago(now - passed, now) for passed, _ in steps] == [said for _, said in steps]
    assert ago(None) == ""


def test_sizes_are_for_people() -> None:
    assert [size(n) for n in (5, 1500, 25_000_000, 3_200_000_000)] == [
        "5 B",
        "1.5 kB",
        "25 MB",
        "3.2 GB",
    ]


def test_a_folder_is_known_by_its_name() -> None:
    assert [project(n) for n in ("/home/ann/garden/", "C:\\work\\app", "default", "/")] == [
        "garden",
        "app",
        "default",
        "/",
    ]
