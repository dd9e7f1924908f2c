"""Pages and fragments, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selection import few
from starlette.testclient import TestClient

import recollect
from recollect.errors import SearchTimeout, StorageFull, StoreBusy

PART = {"X-Recollect-Fragment": "part"}
ORIGIN = {"Origin": "http://127.0.0.1:8765"}
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def visible_text(html: str) -> str:
    """The text of a page without tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_an_empty_library_explains_how_to_import(client: TestClient) -> None:
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "Your library is empty" in response.text
    assert "recollect import ~/.codex/sessions" in response.text


def test_the_list_shows_details_of_a_conversation(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "moss",
        "Moss in the rain",
        messages=[{"role": "user", "content": "hello"}],
        project="garden",
        metadata={"tags": ["green", "wet"]},
    )
    page_text = visible_text(client.get("/").text)
    row = r"Moss in the rain \d\d:\d\d Recollect 1 message garden green wet"
    assert re.search(row, page_text)
    assert "1 conversation in your library." in page_text


def test_a_conversation_without_a_title_is_shown_with_its_first_words(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c1", messages=[{"role": "user", "content": "moss in the rain"}])
    row = r"moss in the rain \d\d:\d\d Recollect 1 message"
    assert re.search(row, visible_text(client.get("/").text))
    page = client.get("/c/c1").text
    assert "<title>moss in the rain · Recollect</title>" in page
    assert re.search("<h1[^>]*><bdi>moss in the rain</bdi></h1>", page)
    for kind in ("", "&kind=all"):
        hits = client.get(f"/?q=moss{kind}").text
        assert '<bdi class="title">moss in the rain</bdi>' in hits


@pytest.mark.parametrize(
    ("parameters", "expected"),
    few(
        [
            ("project=work", {"a"}),
            ("source=recollect", {"a", "b"}),
            ("source=codex", set()),
            ("tag=green", {"b"}),
            ("role=assistant", {"b"}),
            ("after=2026-02-01", {"b"}),
            ("before=2026-01-31", {"a"}),
            ("title=alp", {"a"}),
            ("project=work&tag=green", set()),
            ("project=&source=&after=", {"a", "b"}),
        ],
        4,
    ),
)
def test_the_list_can_be_filtered(
    client: TestClient, library: recollect.Library, parameters: str, expected: set[str]
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
    html = client.get(f"/console/rows?{parameters}", headers=PART).text
    assert set(re.findall(r'data-id="(\w)"', html)) == expected


@pytest.mark.both_stores
def test_a_search_works_without_script(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation(
        "tea", "On tea", messages=[{"role": "user", "content": "Sencha at <70> degrees"}]
    )
    html = client.get("/?q=sencha").text
    assert "<mark>Sencha</mark> at &lt;70&gt; degrees" in html
    assert 'value="sencha"' in html
    assert "Results for sencha" in visible_text(html)


@pytest.mark.parametrize("kind", ["chats", "all"])
def test_a_correction_is_shown_with_a_button_to_search_as_typed(
    client: TestClient, library: recollect.Library, kind: str
) -> None:
    messages = [{"role": "user", "content": f"Row {n} has tomatoes."} for n in range(4)]
    library.add_conversation("beds", "Beds", messages=messages)
    library.index()
    address = f"/console/hits?q=tomatoez&kind={kind}"
    html = client.get(address, headers=PART).text
    text = visible_text(html)
    assert "Showing results for tomatoes . Search instead for tomatoez" in text
    assert 'data-command="search-as-typed"' in html
    as_typed = client.get(f"{address}&correct=0", headers=PART).text
    assert "search-as-typed" not in as_typed
    before, nearest = visible_text(as_typed).split("Closest in meaning")
    assert "Row 1" not in before and "Row" in nearest
    assert "Similar in meaning" not in visible_text(as_typed)


def test_a_search_of_everything_names_only_words_that_nothing_contains(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("tea", "On tea", messages=[{"role": "user", "content": "Sencha"}])
    library.knowledge.create("notes", {"title": "Beds", "content": "Phlox next to the beans."})
    library.index()

    def text(query: str, kind: str = "all") -> str:
        html = client.get(f"/console/hits?q={query}&kind={kind}", headers=PART).text
        return visible_text(html)

    assert "mentions" not in text("phlox")
    assert "mentions" not in text("sencha+phlox")
    assert "Nothing mentions “zxqv”." in text("sencha+phlox+zxqv")
    assert "No message mentions “phlox”." in text("sencha+phlox", "conversations")
    assert "No note mentions “sencha”." in text("sencha+phlox", "notes")


def test_messages_are_shown_if_the_search_of_items_takes_too_long(
    client: TestClient, library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add_conversation("tea", "On tea", messages=[{"role": "user", "content": "Sencha"}])
    library.knowledge.create("notes", {"title": "Beds", "content": "Phlox next to the beans."})
    library.index()

    def time_out(*arguments: object, **options: object) -> None:
        raise SearchTimeout("It took too long.")

    monkeypatch.setattr("recollect.knowledge.api.Knowledge.search", time_out)
    text = visible_text(client.get("/console/hits?q=sencha&kind=all", headers=PART).text)
    assert "Contains “sencha”" in text
    assert "The search was stopped because it took too long" in text
    assert client.get("/console/hits?q=phlox&kind=all", headers=PART).status_code == 503


@pytest.mark.parametrize(
    ("parameters", "heading", "buttons"),
    [
        ("q=nowhere", "No message mentions nowhere", []),
        (
            "q=nowhere&project=kitchen&role=user",
            "No message in project kitchen, with role user mentions nowhere",
            ["Clear all filters"],
        ),
        ('q="nowhere%20else"', 'No message matches "nowhere else"', ["Remove the quotes"]),
        ("q=sencha+before:2001", "No message matches sencha before:2001", ["Search all time"]),
        ("q=before+2001", "Searched by time only: up to 2000-12-31.", []),
        ("q=nowhere&after=2999-01-01", "", ["Search all time", "Clear all filters"]),
        ("q=nowhere&mode=text", "", ["Search by words and meaning"]),
    ],
)
def test_an_empty_result_offers_what_helps(
    client: TestClient,
    library: recollect.Library,
    parameters: str,
    heading: str,
    buttons: list[str],
) -> None:
    library.add_conversation(
        "tea",
        "On tea",
        messages=[{"role": "user", "content": "Sencha", "created_at": "2026-01-01"}],
        project="kitchen",
    )
    html = client.get(f"/console/hits?{parameters}", headers=PART).text
    assert heading in visible_text(html)
    assert re.findall(r"data-suggestion[^>]*>([^<]*)<", html) == buttons


def test_hits_link_to_the_message_and_to_its_source(
    client: TestClient, library: recollect.Library
) -> None:
    document = recollect.Document(
        "chatgpt",
        "5d2f9c1e-aaaa-4bbb-8ccc-123456789012",
        "Pears",
        passages=(recollect.Passage("m/1", "user", "a pear tree"),),
    )
    library._store.save([document])
    html = client.get("/console/hits?q=pear", headers=PART).text
    assert "/c/5d2f9c1e-aaaa-4bbb-8ccc-123456789012?m=m%2F1&amp;q=pear" in html
    assert "https://chatgpt.com/c/5d2f9c1e-aaaa-4bbb-8ccc-123456789012" in html


def test_results_are_grouped_by_conversation_with_the_best_lines(
    client: TestClient, library: recollect.Library
) -> None:
    contents = ["# The **pear**", "a [pear](https://x.org/pear) tree", "pear, `pear`", "pear 4"]
    library.add_conversation(
        "pears",
        "Pears",
        project="/home/ann/garden",
        messages=[{"role": "user", "content": content} for content in contents],
    )
    html = client.get("/console/hits?q=pear", headers=PART).text
    assert html.count("data-hit ") == 1
    assert len(re.findall(r'class="(?:hit|line)-link"', html)) == 3
    text = visible_text(html)
    assert "Recollect garden" in text
    assert "Contains “pear”." in text
    for markup in ("#", "**", "`", "](", "https://x.org"):
        assert markup not in text


def test_facets_count_all_matches_and_ignore_their_own_selection(
    client: TestClient, library: recollect.Library
) -> None:
    for n in range(40):
        library.add_conversation(
            f"c{n}",
            f"Pears {n}",
            project=("home", "work")[n % 4 == 0],
            messages=[{"role": "user", "content": f"pear {n}", "created_at": "2026-03-05"}],
        )
    html = client.get("/console/facets?q=pear&project=work", headers=PART).text
    text = visible_text(html)
    assert "10 messages in 10 conversations" in text
    assert "work 10 home 30" in text
    assert "Remove the filter Project: work" in text
    march = client.get(
        "/console/facets?q=pear&after=2026-03-01&before=2026-03-31", headers=PART
    ).text
    assert "Month: Mar 2026" in visible_text(march)


@pytest.mark.parametrize(
    ("text", "expected"),
    few(
        [
            ("role:a", [("role:assistant ", "0 messages")]),
            ("pear in:ho", [("pear in:home ", "2 conversations")]),
            ("project:", [("project:home ", "2 conversations")]),
            ("source:rec", [("source:recollect ", "Recollect · 2 conversations")]),
            ("-tag:r", [("-tag:red ", "1 conversation"), ('-tag:"very green" ', "1 conversation")]),
            ("after:2026-04", [("after:2026-04 ", "1 message")]),
            ("before:2026-03", [("before:2026-03 ", "1 message")]),
            ("Project:HO", [("project:home ", "2 conversations")]),
            ("sou", [("source:", "where the conversation came from")]),
            ("pear", []),
            ("other:x", []),
        ],
        4,
    ),
)
def test_fields_are_completed_with_counts(
    client: TestClient, library: recollect.Library, text: str, expected: list[tuple[str, str]]
) -> None:
    for n, tags in enumerate((["red"], ["very green"])):
        library.add_conversation(
            f"c{n}",
            messages=[{"role": "user", "content": "pear", "created_at": f"2026-0{3 + n}-05"}],
            project="home",
            metadata={"tags": tags},
        )
    html = client.get("/console/completions", params={"text": text}, headers=PART).text
    texts = [unescape(value) for value in re.findall(r'data-completion="([^"]*)"', html)]
    details = re.findall(r'class="hint">([^<]*)<', html)
    assert list(zip(texts, details, strict=True)) == expected


def test_names_of_tags_and_projects_are_offered(
    client: TestClient, library: recollect.Library
) -> None:
    tags = [f"tag {n}" for n in range(60)]
    library.add_conversation("c", project="/work/Garten", metadata={"tags": [*tags, "z <rare>"]})

    def names(**parameters: str) -> list[str]:
        html = client.get("/console/names", params=parameters, headers=PART).text
        return [unescape(value) for value in re.findall(r'<option value="([^"]*)"', html)]

    assert names(facet="tags", text=" RARE") == ["z <rare>"]
    assert len(names(facet="tags")) == 50
    assert names(facet="projects", text="gar") == ["/work/Garten"]
    assert client.get("/console/names?facet=other", headers=PART).status_code == 400


def test_changes_from_the_row_menu_can_be_undone(
    client: TestClient, library: recollect.Library
) -> None:
    metadata = {"tags": ["ripe"]}
    messages = [{"role": "user", "content": "pear"}]
    library.add_conversation("c", "Pears", messages=messages, metadata=metadata)
    for action, text, message in [
        ("rename", "Apples", "Renamed to “Apples”."),
        ("tag", "fruit", "Tagged “Pears” with “fruit”."),
        ("untag", "ripe", "Removed the tag “ripe” from “Pears”."),
        ("pin", "", "Pinned “Pears”."),
        ("delete", "", "Deleted “Pears”."),
    ]:
        parameters = {"id": "c", "action": action, "text": text}
        change = client.post("/console/edit", params=parameters, headers=ORIGIN).json()
        assert change["message"] == message
        client.post(f"/console/undo?number={change['number']}", headers=ORIGIN)
        summary = library.summary("c")
        assert (summary.title, summary.metadata.get("tags")) == ("Pears", ["ripe"])
        assert not summary.metadata.get("pinned")
    answer = client.post("/console/edit?id=c&action=explode", headers=ORIGIN)
    assert (answer.status_code, "no action" in answer.text) == (400, True)


@pytest.mark.both_stores
def test_pinned_conversations_come_first_and_rows_know_their_place(
    client: TestClient, library: recollect.Library
) -> None:
    for n in range(5):
        library.add_conversation(f"c{n}", f"C{n}", created_at=f"2026-01-0{n + 1}")
    library.pin("c1")
    html = client.get("/console/rows?offset=0&limit=3", headers=PART).text
    html += client.get("/console/rows?offset=3&limit=3", headers=PART).text
    order = re.findall(r'data-id="(c\d)"', html)
    assert order == ["c1", "c4", "c3", "c2", "c0"]
    for place, id in enumerate(order):
        assert client.get(f"/console/row-index?id={id}").json() == {"index": place}
    assert client.get("/console/row-index?id=c1&title=C3").json() == {"index": None}


@pytest.mark.parametrize(
    "id",
    few(["a/b", "a b?c#d&e=f", "..", ".", "日本", "a\nb", "'\"<>", "a//b/", "search/messages"], 3),
)
def test_ids_may_contain_any_character(
    client: TestClient, library: recollect.Library, id: str
) -> None:
    library.add_conversation(id, "Odd", messages=[{"role": "user", "content": "still here"}])
    link = re.search(r'class="row" href="([^"]*)"', client.get("/").text)
    assert link
    assert "still here" in client.get(unescape(link[1])).text


def test_a_long_conversation_is_loaded_in_windows(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "long", "Long", messages=[{"role": "user", "content": f"number {n}"} for n in range(300)]
    )
    html = client.get("/c/long").text
    assert re.findall(r'data-index="(\d+)"', html) == [str(n) for n in range(40)]
    around = client.get("/c/long?m=long:150").text
    numbers = [int(n) for n in re.findall(r'data-index="(\d+)"', around)]
    assert numbers[0] < 150 < numbers[-1]
    assert len(numbers) == 40
    assert around.count("data-target") == 1
    fragment = client.get("/console/messages?id=long&start=290&limit=40", headers=PART).text
    assert 'data-start="290" data-end="300" data-total="300"' in fragment


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
    assert '<span class="number">2/2</span>' in html
    assert "<span data-message-count>3 messages, 2 on this branch</span>" in html
    assert "3 messages, 2 on this branch" in client.get("/console/preview?id=tree").text
    assert '<span class="details">3 messages</span>' in client.get("/console/rows").text
    other = client.get("/c/tree?m=a1").text
    assert "first answer" in other
    assert "second answer" not in other


def test_tool_calls_thinking_and_hidden_messages_are_collapsed(
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
    assert html.count('<details class="collapsed">') == 2
    assert html.count('<details class="collapsed tool-row">') == 1
    assert "Hidden system" in html
    assert "found *it*" in html
    assert "model-7" in html
    assert "plan.pdf" in html
    assert "A book (https://a.example)" in html
    assert "<bdi>Deep</bdi>" in html
    assert "{&#34;n&#34;: 1}" in html


def test_a_long_message_is_cut_and_can_be_loaded_in_full(
    client: TestClient, library: recollect.Library
) -> None:
    text = "\n".join(f"line {n} of many" for n in range(4_000))
    library.add_conversation("big", "Big", messages=[{"id": "m", "role": "user", "content": text}])
    html = client.get("/c/big").text
    assert "line 3999" not in html
    assert re.search(r"Show all \([\d,]+ more characters\)", html)
    assert "line 3999 of many" in client.get("/console/message?id=big&m=m", headers=PART).text
    source = client.get("/console/message-text?id=big&m=m")
    assert source.text == text
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get("/console/message-text?id=big&m=gone", headers=PART).status_code == 404


def test_matches_link_to_the_previous_and_next_match(
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
    assert "2 of 4 in this conversation" in visible_text(html).replace(" – ", " ")
    assert "/c/c?m=m1&amp;q=pear" in html
    assert "/c/c?m=m5&amp;q=pear" in html


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
def test_stored_text_never_becomes_markup(
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
        response = client.get(page)
        assert response.status_code == 200, page
        assert "<script>alert" not in response.text
        assert "<img" not in response.text
        assert "style=" not in response.text
        assert not re.search(r"<[^>]* on\w+=", re.sub(r'"[^"]*"', '""', response.text))


def test_text_that_is_not_valid_unicode_is_shown_with_replacement_characters(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation(
        "c", "t\ud800\x00", messages=[{"role": "user", "content": "lone \udfff \x00 here"}]
    )
    html = client.get("/c/c").text
    assert "lone \ufffd \ufffd here" in html
    assert "t\ufffd\ufffd" in html


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/c/nowhere", 404, "There is no conversation"),
        ("/nowhere", 404, "There is no page at this address."),
        ("/?after=nonsense", 400, "nonsense"),
        ("/?offset=-1&q=x", 400, "offset"),
        ("/conversations?cursor=nonsense", 400, "cursor"),
    ],
)
def test_error_pages_are_inside_the_frame_and_say_what_to_do(
    client: TestClient, path: str, status: int, message: str
) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert message in response.text
    assert "recollect list" not in response.text
    assert 'role="search"' in response.text
    assert 'href="/"' in response.text
    assert response.headers["x-request-id"] in response.text
    assert client.get(path, headers={"Accept": "*/*"}).json()["error"]["details"]


def test_errors_of_the_server_are_pages_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {
        500: RuntimeError("a secret path"),
        503: StoreBusy("a secret path"),
        507: StorageFull("a secret path"),
    }
    for status, error in errors.items():

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("recollect.serve.console.charts.frame", fail)
        response = client.get("/activity?source=chatgpt")
        assert response.status_code == status
        assert "a secret path" not in response.text
        assert 'role="search"' in response.text
        assert 'href="/activity?source=chatgpt">Try again' in response.text


def test_the_script_gets_the_main_part_only(client: TestClient, library: recollect.Library) -> None:
    library.add_conversation("c", "C", messages=[{"role": "user", "content": "here"}])
    html = client.get("/c/c", headers={"X-Recollect-Fragment": "main"}).text
    assert "<html" not in html
    assert 'data-title="C · Recollect"' in html


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, br", "gzip"), ("br;q=1.0, GZIP;q=0.5", "gzip"), ("gzip;q=0", None), ("", None)],
)
def test_scripts_and_styles_are_compressed_on_request(
    client: TestClient, accepted: str, encoding: str | None
) -> None:
    address = re.findall(r'"(/static/[^"]+css)"', client.get("/").text)[0]
    response = client.get(address, headers={"Accept-Encoding": accepted})
    assert response.headers.get("content-encoding") == encoding
    assert response.text == client.get(address, headers={"Accept-Encoding": "identity"}).text
    tag = response.headers["etag"]
    headers = {"Accept-Encoding": accepted, "If-None-Match": tag}
    assert client.get(address, headers=headers).status_code == 304


def test_static_files_can_be_cached_forever(client: TestClient) -> None:
    for address in set(re.findall(r'"(/static/[^"]+)"', client.get("/").text)):
        response = client.get(address)
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        answer = client.get(address, headers={"If-None-Match": response.headers["etag"]})
        assert answer.status_code == 304
    (script,) = re.findall(r'"(/static/[^"]+/console.js)"', client.get("/").text)
    headers = client.get(script).headers
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert client.get("/static/old/console.js").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["../pages.py", "..%2fpages.py", "%2e%2e/pages.py", "pages.py", "library.db", ""]
)
def test_only_static_files_are_served(client: TestClient, name: str) -> None:
    version = re.findall(r'"/static/([^"/]+)/', client.get("/").text)[0]
    assert client.get(f"/static/{version}/{name}").status_code == 404


def test_pages_load_nothing_from_other_servers(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c", "C", messages=[{"role": "user", "content": "here"}])
    for page in ("/", "/c/c", "/activity", "/imports", "/login"):
        html = client.get(page).text
        assert all(
            a.startswith("/static/") for a in re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', html)
        )
        assert "<script>" not in html
    scripts = "".join(
        p.read_text()
        for p in (Path(recollect.__file__).parent / "serve/console/static").rglob("*.*")
    )
    assert "http://" not in scripts.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in scripts


# -- signing in ---


def test_a_person_can_sign_in_and_out_with_an_api_key(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    key = new_user_key()
    response = client.get("/c/x?q=1")
    assert response.status_code == 303
    assert response.headers["location"] == "/login?next=%2Fc%2Fx%3Fq%3D1"
    form = client.get(response.headers["location"]).text
    assert 'value="/c/x?q=1"' in form
    response = client.post("/login", data={"key": key, "next": "/imports"})
    assert response.status_code == 303
    assert response.headers["location"] == "/imports"
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/imports").status_code == 200
    assert "Sign out" in client.get("/").text
    response = client.post("/logout", headers={"Origin": "http://127.0.0.1:8765"})
    assert response.headers["location"] == "/login"
    assert client.get("/imports").status_code == 303


def test_signing_in_does_not_redirect_to_another_site(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    response = client.post("/login", data={"key": new_user_key(), "next": "//evil.example/"})
    assert response.headers["location"] == "/"


def test_agents_cannot_read_human_only_messages(
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
        "/console/message-text?id=c&m=c:0",
        "/console/message?id=c&m=c:0",
    ):
        for key, allowed in ((agent, False), (person, True)):
            html = client.get(page, headers={"Authorization": f"Bearer {key}"}).text
            assert ("password is" in html) is allowed, page
    assert "people only" in client.get("/c/c", headers={"Authorization": f"Bearer {person}"}).text
