"""The pages of notes, media, characters and prompts, without scripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selection import few
from starlette.testclient import TestClient

import recollect
from recollect.knowledge import editing
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT
from recollect.serve import links
from recollect.serve.console.markup import rendering

PART = {"X-Recollect-Fragment": "part"}
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTOIXQAAAABJRU5ErkJggg=="
)
VTT = """WEBVTT

00:00:01.000 --> 00:00:04.000
<v Ann>Moss has no roots.

00:00:05.000 --> 00:00:09.000
<v Bob>Then how does it drink?

00:02:03.500 --> 00:02:08.000
<v Ann>With its leaves.
"""


def visible_text(html: str) -> str:
    """The text of a page without tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def form_values(html: str) -> dict[str, list[str]]:
    """What a browser would submit for the form."""
    form = html[html.index("data-item-form") :]
    values: dict[str, list[str]] = {}
    for tag in re.finditer(
        r"<input\b([^>]*)>|<textarea\b([^>]*)>\n?(.*?)</textarea>", form, re.DOTALL
    ):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag[1] or tag[2] or ""))
        value = tag[3] if tag[3] is not None else attributes.get("value", "")
        if "name" in attributes:
            text = unescape(value).replace("\r\n", "\n").replace("\n", "\r\n")
            values.setdefault(unescape(attributes["name"]), []).append(text)
    return values


def send(client: TestClient, address: str, fields: dict[str, list[str]]) -> Any:
    body = urlencode(fields, doseq=True)
    return client.post(
        address, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )


# -- lists ---


def test_every_kind_has_a_tab(client: TestClient) -> None:
    for name, label in (
        ("notes", "Notes"),
        ("media", "Media"),
        ("characters", "Characters"),
        ("prompts", "Prompts"),
    ):
        html = client.get(f"/knowledge/{name}").text
        assert f'<h1 tabindex="-1">{label}</h1>' in html
        assert f'data-tab="{name}" aria-current="true">{label}</a>' in html
        assert f"No {'media items' if name == 'media' else name} yet." in visible_text(html)
    assert 'data-tab="conversations" aria-current="true"' in client.get("/").text


def test_unknown_kinds_are_not_found_and_conversations_are_redirected(client: TestClient) -> None:
    assert client.get("/knowledge/pictures").status_code == 404
    assert client.get("/knowledge/pictures/x").status_code == 404
    assert client.get("/knowledge/chats").headers["location"] == "/"
    assert client.get("/knowledge/chats/a%2Fb").headers["location"] == "/c/a%2Fb"
    assert client.get("/console/rows?kind=pictures", headers=PART).status_code == 404
    for kind in ("chats", "conversations", "pictures"):
        assert send(client, f"/knowledge/{kind}", {}).status_code == 404


# -- notes ---


def test_a_note_is_rendered_as_markdown(client: TestClient, library: recollect.Library) -> None:
    item = library.knowledge.create(
        "notes",
        {"title": "Moss", "content": "# Moss\n\nIt likes **shade**.", "keywords": ["green"]},
    )
    html = client.get(f"/knowledge/notes/{item.id}").text
    assert "<strong>shade</strong>" in html
    assert "<h1>Moss</h1>" not in html, "the title is shown once"
    assert 'href="/knowledge/notes?tag=green"' in html
    assert f"/api/knowledge/notes/{item.id}/export?format=md" in html
    assert "srt" not in html
    response = client.get(f"/console/item-text?kind=notes&id={item.id}")
    assert response.text == "# Moss\n\nIt likes **shade**."
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


def notes(library: recollect.Library) -> None:
    for id, title, metadata in (
        ("vault/garden/Moss", "Moss", {}),
        ("vault/Rain", "Rain", {"aliases": ["Water from above"]}),
        ("vault/garden/Rain", "Rain here", {}),
        ("vault/kitchen/Bread", "How to bake bread", {}),
    ):
        note = editing.new_document(NOTE, {"title": title, "content": f"text of {id}"})
        library._store.save([replace(note, id=id, source="notes", source_id=id, metadata=metadata)])


@pytest.mark.parametrize(
    ("target", "from_id", "expected"),
    few(
        [
            ("Rain", "vault/garden/Moss", "vault/garden/Rain"),
            ("Rain", "vault/kitchen/Bread", "vault/Rain"),
            ("garden/Rain", "vault/kitchen/Bread", "vault/garden/Rain"),
            ("rain here", "", "vault/garden/Rain"),
            ("HOW TO BAKE BREAD", "", "vault/kitchen/Bread"),
            ("Bread.md#Oven", "", "vault/kitchen/Bread"),
            ("../garden/Moss.md", "vault/kitchen/Bread", "vault/garden/Moss"),
            ("water from above", "vault/garden/Moss", "vault/Rain"),
            ("#Above", "vault/Rain", "vault/Rain"),
        ],
        4,
    ),
)
def test_a_link_resolves_to_the_nearest_note(
    client: TestClient, library: recollect.Library, target: str, from_id: str, expected: str
) -> None:
    notes(library)
    html = client.get(links.note_link(target, from_id)).text
    assert f"text of {expected}" in visible_text(html)
    assert f'data-url="{links.item_url("notes", expected)}"' in html


def test_a_link_to_a_missing_note_offers_to_create_it(
    client: TestClient, library: recollect.Library
) -> None:
    notes(library)
    html = client.get(links.note_link("Snow & ice", "vault/Rain")).text
    assert "There is no note called Snow & ice" in visible_text(html)
    new = re.search(r'href="(/knowledge/notes\?new[^"]*name=[^"]*)"', html)
    assert new
    assert form_values(client.get(unescape(new[1])).text)["title"] == ["Snow & ice"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "[[A b]]",
            '<a class="wiki" href="/knowledge/notes?link=A%20b&amp;of=n" '
            'rel="noopener noreferrer nofollow">A',
        ),
        ("[[A|see *b*]]", ">see *b*</a>"),
        ("![[A]]", 'link=A&amp;of=n"'),
        ("`[[A]]`", "<code>[[A]]</code>"),
        ("[[A#c]]", "link=A%23c&amp;of=n"),
        ("[[]] [[ ]]", "[[]] [[ ]]"),
        ("[[a\nb]]", "[[a<br>"),
        ("[x](/logout)", "[x](/logout)"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        (
            "[w](https://a.org)",
            '<a href="https://a.org" target="_blank" rel="noopener noreferrer nofollow">w</a>',
        ),
        (
            "![p](https://a.example/p.png)",
            '<a class="image" href="https://a.example/p.png" target="_blank"',
        ),
        ("[a](b%20c.md)", '<a class="wiki" href="/knowledge/notes?link=b%20c.md&amp;of=n"'),
        ("[a](../b.md#c)", 'link=..%2Fb.md%23c&amp;of=n"'),
        ("[a](//evil.example/b.md)", "[a](//evil"),
        ("[a](x:b.md)", "[a](x:b.md)"),
        ("![a](b.png)", "<span>Image: a</span>"),
        ("[a](b.exe)", "[a](b.exe)"),
        ("[[<b>x</b>]]", "&lt;b&gt;x&lt;/b&gt;</a>"),
        ('[["onload="x]]', "link=%22onload%3D%22x"),
        (
            "| a |\n|---|\n| [[A\\|b]] |",
            '<td><a class="wiki" href="/knowledge/notes?link=A&amp;of=n"',
        ),
    ],
)
def test_links_in_notes_lead_to_notes_or_the_web_only(text: str, html: str) -> None:
    assert html in rendering.Page().note(text, "n")


def test_line_breaks_are_kept_unless_the_text_was_wrapped() -> None:
    assert "<br>" in rendering.Page().note(
        "Roses are red,\nviolets are blue,\nsugar is sweet,\nand so are you.", "n"
    )
    wrapped = "\n".join(
        ["A line that a program ended at a margin of about eighty characters or so, as"] * 5
    )
    assert "<br>" not in rendering.Page().note(f"# Title\n\n{wrapped}\n\n- one\n- two", "n")


@given(st.text(alphabet='[]|!.md#ab(/)"<>&\\\n` ', max_size=60), st.text(max_size=10))
def test_no_note_can_link_into_the_console_except_to_notes(text: str, id: str) -> None:
    for address in re.findall(r'href="([^"]*)"', rendering.Page().note(text, id)):
        assert address.startswith(("/knowledge/notes?link=", "http://", "https://", "mailto:"))


def test_a_long_note_is_loaded_in_parts(client: TestClient, library: recollect.Library) -> None:
    text = "\n\n".join(f"Paragraph {n} of a long note. " * 20 for n in range(600))
    item = library.knowledge.create("notes", {"title": "Long", "content": text})
    html = client.get(f"/knowledge/notes/{item.id}").text
    assert "Paragraph 0 of" in html
    assert "Paragraph 599 of" not in html
    next_offset = re.search(r'data-load="after" data-position="(\d+)"', html)
    loaded = html
    while next_offset:
        part = client.get(
            f"/console/item-part?kind=notes&id={item.id}&p={next_offset[1]}", headers=PART
        ).text
        loaded += part
        next_offset = re.search(r'data-load="after" data-position="(\d+)"', part)
    assert "Paragraph 599 of" in loaded
    assert "Show earlier text" in client.get(f"/knowledge/notes/{item.id}?p=400").text
    pieces = re.findall(r'<span id="p=\d+">(.*?)</span>', loaded, re.DOTALL)
    assert unescape("".join(pieces)) == text


# -- media ---


def test_a_transcript_has_links_to_its_times(
    client: TestClient, library: recollect.Library
) -> None:
    item = library.knowledge.create(
        "media",
        {
            "title": "On moss",
            "media_type": "video",
            "transcript": VTT,
            "url": "https://youtu.be/abc",
            "author": "Ann",
        },
    )
    html = client.get(f"/knowledge/media/{item.id}").text
    assert '<a class="clock" href="#t=1"' in html
    assert '<a class="clock" href="#t=123" title="Link to this time">2:03</a>' in html
    assert '<span id="t=123" data-seconds="123.5">With its leaves.</span>' in html
    assert 'href="https://youtu.be/abc?t=123s"' in html
    assert "<strong>Bob</strong>" in html
    assert "Subtitles (SRT)" in html
    assert "video by Ann youtu.be" in visible_text(html)


@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("https://www.youtube.com/watch?v=a&t=9", "https://www.youtube.com/watch?v=a&t=62s"),
        ("https://youtu.be/a", "https://youtu.be/a?t=62s"),
        ("https://vimeo.com/1", "https://vimeo.com/1#t=62s"),
        ("https://www.twitch.tv/videos/1", "https://www.twitch.tv/videos/1?t=0h1m2s"),
        ("https://a.example/x.mp3?y=1", "https://a.example/x.mp3?y=1#t=62"),
        ("https://a.example/x", ""),
        ("https://youtube.com.evil.example/watch", ""),
        ("javascript:alert(1)//youtu.be", ""),
        ("https://[", ""),
        ("", ""),
    ],
)
def test_play_links_start_at_a_time(address: str, there: str) -> None:
    assert links.at_second(address, 62.9) == there


# -- characters and prompts ---


def character(
    library: recollect.Library, picture: bytes = b"", media_type: str = "image/png"
) -> str:
    card = {
        "name": "Fern",
        "description": "An *old* gardener.",
        "first_mes": "Oh.",
        "alternate_greetings": ["Hello!", "Hi."],
        "character_book": {"entries": [{"keys": ["door"], "content": "Four **doors**."}]},
        "creator": "Ann",
        "extensions": {"kept": 1},
    }
    id = library.knowledge.create("characters", {"card": card}).id
    if picture:
        document = library._store.document(id)
        first, *rest = document.passages
        avatar = {
            "type": "avatar",
            "media_type": media_type,
            "data": base64.b64encode(picture).decode(),
        }
        library._store.rewrite(
            id, replace(document, passages=(first._replace(attachments=(avatar,)), *rest))
        )
    return id


def test_a_character_is_shown_with_its_portrait_and_fields(
    client: TestClient, library: recollect.Library
) -> None:
    id = character(library, PIXEL)
    html = client.get("/knowledge/characters/Fern").text
    assert f'data-id="{id}"' in html, "characters can be addressed by name"
    assert "An <em>old</em> gardener." in html
    assert 'data-copy-text="first_message"' in html
    page_text = visible_text(html)
    assert "Alternate greetings Copy Hello! Hello! Hi. Hi." in page_text
    assert "Lorebook Copy door Four doors ." in page_text
    picture = client.get(f"/console/portrait?id={id}")
    assert picture.content == PIXEL
    assert picture.headers["content-type"] == "image/png"
    assert (
        client.get(f"/console/item-text?kind=characters&id={id}&field=first_message").text == "Oh."
    )
    assert client.get(f"/console/item-text?kind=characters&id={id}&field=none").status_code == 404
    assert f"/console/portrait?id={id}&amp;v=2" in client.get("/knowledge/characters").text


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/pdf", ""])
def test_only_images_are_served_as_portraits(
    client: TestClient, library: recollect.Library, media_type: str
) -> None:
    id = character(library, b"<script>alert(1)</script>", media_type)
    response = client.get(f"/console/portrait?id={id}")
    assert response.headers["content-type"] == "image/svg+xml"
    assert b"script" not in response.content
    assert b">F</text>" in response.content


def test_a_prompt_is_shown_field_by_field(client: TestClient, library: recollect.Library) -> None:
    item = library.knowledge.create(
        "prompts",
        {
            "name": "Ask",
            "author": "Ann",
            "details": "For *plants*.",
            "user_prompt": "Explain {{topic}}\n*as is*",
        },
    )
    html = client.get(f"/knowledge/prompts/{item.id}").text
    assert "For <em>plants</em>." in html
    assert '<pre class="plain">Explain {{topic}}\n*as is*</pre>' in html
    assert (
        client.get(f"/console/item-text?kind=prompts&id={item.id}&field=user_prompt").text
        == "Explain {{topic}}\n*as is*"
    )


# -- searching everything ---


def fill(library: recollect.Library) -> None:
    library.add_conversation(
        "c", "On pears", messages=[{"id": "m", "role": "user", "content": "a pear tree"}]
    )
    library.knowledge.create(
        "notes", {"title": "Pears", "content": "A pear <b>note</b>", "keywords": ["fruit"]}
    )
    library.knowledge.create(
        "media", {"title": "Pear talk", "transcript": VTT.replace("leaves", "pear")}
    )
    character(library)
    library.knowledge.create("prompts", {"name": "Describe", "user_prompt": "Describe a pear."})


def test_one_search_covers_all_kinds(client: TestClient, library: recollect.Library) -> None:
    fill(library)
    html = client.get("/?q=pear").text
    page_text = visible_text(html)
    assert "Results for pear" in page_text
    assert html.count("data-hit ") == 4
    assert "A <mark>pear</mark> &lt;b&gt;note&lt;/b&gt;" in html
    assert 'href="/c/c?m=m&amp;q=pear"' in html
    assert re.search(r'href="/knowledge/media/[^"?]*\?q=pear#t=123"', html)
    assert re.search(r'href="/knowledge/prompts/[^"?]*\?q=pear#f-user_prompt"', html)
    assert "at 2:03" in page_text
    facets = visible_text(client.get("/console/facets?q=pear", headers=PART).text)
    assert "Kind Conversations 1 Media 1 Notes 1 Prompts 1" in facets


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("kind=notes", ["notes"]),
        ("kind=conversations", ["conversations"]),
        ("kind=characters", []),
        ("tag=fruit", []),
        ("kind=notes&tag=fruit", ["notes"]),
        ("kind=notes&tag=other", []),
        ("kind=nonsense", ["conversations", "media", "notes", "prompts"]),
    ],
)
def test_a_search_can_be_narrowed_to_a_kind(
    client: TestClient, library: recollect.Library, parameters: str, expected: list[str]
) -> None:
    fill(library)
    html = client.get(f"/console/hits?q=pear&{parameters}", headers=PART).text
    assert sorted(re.findall(r'data-hit [^>]*data-kind="(\w+)"', html)) == expected


# -- writing ---

SUBMISSIONS: list[tuple[str, dict[str, list[str]], str]] = [
    (
        "notes",
        {
            "title": ["Moss"],
            "content": ["It **grows**.\r\n\r\n[[Rain]]"],
            "keywords": ["green, wet"],
        },
        "grows",
    ),
    (
        "media",
        {"title": ["Talk"], "media_type": ["video"], "content": [VTT.replace("\n", "\r\n")]},
        "2:03",
    ),
    (
        "characters",
        {"name": ["Fern"], "description": ["Old."], "alternate_greetings": ["Hello!", "Hi.", ""]},
        "Hi.",
    ),
    ("prompts", {"name": ["Ask"], "user_prompt": ["Explain."], "keywords": ["plants"]}, "Explain."),
]


@pytest.mark.parametrize(
    ("kind", "fields", "expected"), SUBMISSIONS, ids=[kind for kind, _, _ in SUBMISSIONS]
)
def test_a_submitted_form_creates_an_item_and_an_unchanged_form_changes_nothing(
    client: TestClient,
    library: recollect.Library,
    kind: str,
    fields: dict[str, list[str]],
    expected: str,
) -> None:
    form = form_values(client.get(f"/knowledge/{kind}?new=true").text)
    response = send(client, f"/knowledge/{kind}", form | fields)
    assert response.status_code == 303
    address = response.headers["location"]
    assert expected in client.get(address).text
    (summary,), _ = library.knowledge.list(kind)
    before = library._store.document(summary.id)
    edit = client.get(f"{address}?edit=true")
    assert send(client, address, form_values(edit.text)).status_code == 303
    assert library._store.document(summary.id) == before
    assert library._store.summary(summary.id).version == summary.version


@pytest.mark.parametrize("kind", [kind for kind, _, _ in SUBMISSIONS])
def test_only_changed_fields_are_saved(
    client: TestClient, library: recollect.Library, kind: str
) -> None:
    fields = next(fields for name, fields, _ in SUBMISSIONS if name == kind)
    address = send(client, f"/knowledge/{kind}", fields).headers["location"]
    form = form_values(client.get(f"{address}?edit=true").text)
    first = "name" if kind in ("characters", "prompts") else "title"
    (summary,), _ = library.knowledge.list(kind)
    before = library._store.document(summary.id)
    assert send(client, address, form | {first: ["Another"]}).status_code == 303
    after = library._store.document(summary.id)
    assert after.title == "Another"
    assert [p.content for p in after.passages][1:] == [p.content for p in before.passages][1:]
    if kind == "characters":
        assert after.metadata["card"]["alternate_greetings"] == ["Hello!", "Hi."]
    if kind == "media":
        assert [p.metadata["cues"] for p in after.passages] == [
            p.metadata["cues"] for p in before.passages
        ]


def test_a_conflicting_save_shows_the_differences(
    client: TestClient, library: recollect.Library
) -> None:
    item = library.knowledge.create(
        "notes", {"title": "Moss", "content": "one\ntwo\nthree", "keywords": ["old"]}
    )
    address = f"/knowledge/notes/{item.id}"
    form = form_values(client.get(f"{address}?edit=true").text)
    library.knowledge.edit(
        "notes", item.id, {"content": "one\nTHEIRS\nthree", "keywords": ["theirs"]}
    )
    response = send(client, address, form | {"content": ["one\r\nMINE\r\nthree"]})
    assert response.status_code == 409
    page_text = visible_text(response.text)
    assert "Someone else changed this note while you were editing it (version 2" in page_text
    assert "- THEIRS" in page_text
    assert "+ MINE" in page_text
    assert library._store.document(item.id).passages[0].content == "one\nTHEIRS\nthree"
    again = form_values(response.text)
    assert again["content"] == ["one\r\nMINE\r\nthree"]
    assert again["keywords"] == ["theirs"], "unchanged fields have the current value"
    assert send(client, address, again).status_code == 303
    after = library._store.document(item.id)
    assert after.passages[0].content == "one\nMINE\nthree"
    assert after.metadata["tags"] == ["theirs"]


def test_an_item_deleted_while_editing_can_be_created_again(
    client: TestClient, library: recollect.Library
) -> None:
    item = library.knowledge.create("notes", {"title": "Moss", "content": "one"})
    form = form_values(client.get(f"/knowledge/notes/{item.id}?edit=true").text)
    library.knowledge.delete("notes", item.id)
    response = send(client, f"/knowledge/notes/{item.id}", form | {"content": ["mine"]})
    assert response.status_code == 409
    assert "deleted in the meantime" in visible_text(response.text)
    again = form_values(response.text)
    assert send(client, "/knowledge/notes", again).status_code == 303
    (new_note,), _ = library.knowledge.list("notes")
    assert (new_note.title, library._store.document(new_note.id).passages[0].content) == (
        "Moss",
        "mine",
    )


def test_an_invalid_form_is_shown_again_with_its_values(
    client: TestClient, library: recollect.Library
) -> None:
    response = send(client, "/knowledge/prompts", {"name": [" "], "user_prompt": ["a long text"]})
    assert response.status_code == 400
    assert "needs a name" in visible_text(response.text)
    assert form_values(response.text)["user_prompt"] == ["a long text"]
    assert library.knowledge.list("prompts")[1] == 0
    assert client.post("/knowledge/notes", json={"title": "x"}).status_code == 415
    assert (
        send(client, "/knowledge/notes", {f"x{n}": ["y"] for n in range(1000)}).status_code == 400
    )


def test_a_page_of_another_site_cannot_submit_a_form(
    client: TestClient, library: recollect.Library
) -> None:
    body = urlencode({"title": "x"})
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": "https://evil.example",
    }
    assert client.post("/knowledge/notes", content=body, headers=headers).status_code == 403
    assert library.knowledge.list("notes")[1] == 0


# -- who may ---


def test_a_read_only_key_gets_no_form(client: TestClient, new_user_key: Callable[..., str]) -> None:
    headers = {"Authorization": f"Bearer {new_user_key(scopes=('read',))}"}
    assert client.get("/knowledge/notes", headers=headers).status_code == 200
    assert client.get("/knowledge/notes?new=true", headers=headers).status_code == 403
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    assert client.post("/knowledge/notes", content="title=x", headers=headers).status_code == 403


def test_agents_cannot_read_human_only_items(
    client: TestClient, library: recollect.Library, new_user_key: Callable[..., str]
) -> None:
    item = library.knowledge.create("notes", {"title": "N", "content": "the password is swordfish"})
    document = library._store.document(item.id)
    hidden = tuple(p._replace(visibility="human_only") for p in document.passages)
    library._store.rewrite(item.id, replace(document, passages=hidden))
    agent, person = new_user_key(agent=True), new_user_key()
    for page in (
        f"/knowledge/notes/{item.id}",
        f"/knowledge/notes/{item.id}?edit=true",
        "/?q=swordfish&kind=all",
        f"/console/item-text?kind=notes&id={item.id}",
        f"/console/item-part?kind=notes&id={item.id}",
    ):
        for key, allowed in ((agent, False), (person, True)):
            html = client.get(page, headers={"Authorization": f"Bearer {key}"}).text
            assert ("password is" in html) is allowed, page


# -- whatever is stored ---


@pytest.mark.parametrize(
    "id", few(["a/b", "a b?c#d&e=f", "..", ".", "日本", "'\"<>", "a//b/", "new", "search"], 3)
)
def test_ids_may_contain_any_character(
    client: TestClient, library: recollect.Library, id: str
) -> None:
    note = replace(
        editing.new_document(NOTE, {"title": "Odd", "content": "still here"}),
        id=id,
        source="notes",
        source_id=id,
    )
    library._store.save([note])
    link = re.search(r'class="row" href="([^"]*)"', client.get("/knowledge/notes").text)
    assert link
    address = unescape(link[1])
    html = client.get(address).text
    assert "still here" in html
    edit = re.search(r'href="([^"]*)" data-edit', html)
    assert edit
    form = form_values(client.get(unescape(edit[1])).text)
    assert send(client, address, form | {"title": ["Even"]}).status_code == 303
    assert library._store.summary(id).title == "Even"


@pytest.mark.parametrize("kind", [NOTE, MEDIA, CHARACTER, PROMPT])
def test_stored_text_never_becomes_markup(
    client: TestClient, library: recollect.Library, kind: str
) -> None:
    plural = plural_of(kind)
    fields: dict[str, Any] = {
        "title": NASTY,
        "content": f"pear {NASTY} [[{NASTY}]]",
        "keywords": [NASTY],
    }
    if kind == MEDIA:
        cue = "00:01.000 --> 00:02.000\n"
        fields = {
            "title": NASTY,
            "transcript": f"WEBVTT\n\n{cue}pear {NASTY.replace('<', '&lt;')}",
            "author": NASTY,
            "url": f"https://youtu.be/{NASTY}",
            "media_type": NASTY,
            "keywords": [NASTY],
        }
    if kind == CHARACTER:
        entries = [{"keys": [NASTY], "content": NASTY}]
        fields = {
            "card": {
                "name": NASTY,
                "description": f"pear {NASTY}",
                "alternate_greetings": [NASTY],
                "tags": [NASTY],
                "creator": NASTY,
                "character_book": {"entries": entries},
            }
        }
    if kind == PROMPT:
        fields = {
            "name": NASTY,
            "user_prompt": f"pear {NASTY}",
            "details": NASTY,
            "keywords": [NASTY],
        }
    document = editing.new_document(kind, fields)
    metadata = {
        **document.metadata,
        "file": NASTY,
        "aliases": [NASTY],
        "front_matter": {NASTY: NASTY},
    }
    library._store.save([replace(document, id=NASTY, metadata=metadata)])
    address = links.item_url(plural, NASTY)
    pages = [
        f"/knowledge/{plural}",
        address,
        f"{address}?edit=true",
        f"{address}?q={quote(NASTY)}",
        "/?q=pear",
        f"/?q=pear&kind={plural}",
        f"/knowledge/{plural}?tag={quote(NASTY)}&title={quote(NASTY)}",
        links.note_link(f"x{NASTY}", NASTY),
        f"/console/sidebar?kind={plural}",
    ]
    for page in pages:
        response = client.get(page)
        assert response.status_code == 200, page
        assert "<script>alert" not in response.text
        assert "<img src=x" not in response.text
        assert "style=" not in response.text
        assert not re.search(r"<[^>]* on\w+=", re.sub(r'"[^"]*"', '""', response.text))
        assert all(
            a.startswith(("/static/", "/console/"))
            for a in re.findall(r'src="([^"]*)"', response.text)
        )


def plural_of(kind: str) -> str:
    return {NOTE: "notes", MEDIA: "media", CHARACTER: "characters", PROMPT: "prompts"}[kind]


def test_missing_items_are_not_found(client: TestClient) -> None:
    for kind in ("notes", "media", "characters", "prompts"):
        response = client.get(f"/knowledge/{kind}/nowhere")
        assert response.status_code == 404
        assert "<h1>Not found</h1>" in response.text
    assert client.get("/console/portrait?id=nowhere", headers=PART).status_code == 404
