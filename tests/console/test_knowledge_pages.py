"""Pages of notes, media, characters and prompts, as a browser without script sees them, on both stores."""

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
from starlette.testclient import TestClient

import recollect
from recollect.knowledge import editing
from recollect.model.documents import Document
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT
from recollect.serve import links
from recollect.serve.console import items, rendering, writing

PART = {"X-Recollect-Fragment": "part"}
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
POINT = base64.b64decode(
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


def shown(html: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def form_of(html: str) -> dict[str, list[str]]:
    """What a browser would send of the form that is written in."""
    form = html[html.index("data-writing") :]
    found: dict[str, list[str]] = {}
    for tag in re.finditer(
        r"<input\b([^>]*)>|<textarea\b([^>]*)>\n?(.*?)</textarea>", form, re.DOTALL
    ):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag[1] or tag[2] or ""))
        value = tag[3] if tag[3] is not None else attributes.get("value", "")
        if "name" in attributes:
            text = unescape(value).replace("\r\n", "\n").replace("\n", "\r\n")
            found.setdefault(unescape(attributes["name"]), []).append(text)
    return found


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
        assert f"No {'media items' if name == 'media' else name} yet." in shown(html)
    assert 'data-tab="conversations" aria-current="true"' in client.get("/").text


def test_unknown_kinds_have_no_page_and_conversations_have_their_own(client: TestClient) -> None:
    assert client.get("/knowledge/pictures").status_code == 404
    assert client.get("/knowledge/pictures/x").status_code == 404
    assert client.get("/knowledge/chats").headers["location"] == "/"
    assert client.get("/knowledge/chats/a%2Fb").headers["location"] == "/c/a%2Fb"
    assert client.get("/console/rows?source=pictures", headers=PART).status_code == 404
    for source in ("chats", "conversations", "pictures"):
        assert send(client, f"/knowledge/{source}", {}).status_code == 404


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", {"Talk", "Paper"}),
        ("tag=green", {"Talk"}),
        ("type=pdf", {"Paper"}),
        ("title=pap", {"Paper"}),
        ("type=pdf&tag=green", set()),
    ],
)
def test_the_list_of_a_kind_is_filtered(
    client: TestClient, library: recollect.Library, asked: str, found: set[str]
) -> None:
    library.knowledge.create(
        "media", {"title": "Talk", "media_type": "video", "content": "x", "keywords": ["green"]}
    )
    library.knowledge.create(
        "media", {"title": "Paper", "media_type": "pdf", "content": "y", "author": "Ann"}
    )
    library.knowledge.create("notes", {"title": "Note", "content": "z", "keywords": ["green"]})
    rows = client.get(f"/console/rows?source=media&{asked}", headers=PART).text
    assert set(re.findall(r'class="title">([^<]*)<', rows)) == found
    page = client.get(f"/knowledge/media?{asked}").text
    assert set(re.findall(r'class="title">([^<]*)<', page)) == found


def test_the_list_says_what_is_known_of_an_item(
    client: TestClient, library: recollect.Library
) -> None:
    library.knowledge.create(
        "media",
        {
            "title": "Paper",
            "media_type": "pdf",
            "content": "y",
            "author": "Ann",
            "keywords": ["green"],
        },
    )
    said = shown(client.get("/console/sidebar?source=media", headers=PART).text)
    assert "Paper now pdf · Ann green" in said
    assert "pdf (1)" in said
    assert "1 media item" in shown(client.get("/knowledge/media").text)


def test_the_start_page_tells_of_everything(client: TestClient, library: recollect.Library) -> None:
    library.knowledge.create("notes", {"title": "Note", "content": "z"})
    library.knowledge.create("prompts", {"name": "Ask"})
    said = shown(client.get("/").text)
    assert "0 conversations, kept word for word; 1 note and 1 prompt ." in said
    assert "Nothing here yet" not in said


# -- notes ---


def test_a_note_is_shown_as_markdown(client: TestClient, library: recollect.Library) -> None:
    made = library.knowledge.create(
        "notes",
        {"title": "Moss", "content": "# Moss\n\nIt likes **shade**.", "keywords": ["green"]},
    )
    html = client.get(f"/knowledge/notes/{made.id}").text
    assert "<strong>shade</strong>" in html
    assert "<h1>Moss</h1>" not in html, "the title is not said twice"
    assert 'href="/knowledge/notes?tag=green"' in html
    assert f"/api/knowledge/notes/{made.id}/export?format=md" in html
    assert "srt" not in html
    source = client.get(f"/console/text?source=notes&id={made.id}")
    assert source.text == "# Moss\n\nIt likes **shade**."
    assert source.headers["content-type"] == "text/plain; charset=utf-8"


def notes(library: recollect.Library) -> None:
    for id, title, metadata in (
        ("vault/garden/Moss", "Moss", {}),
        ("vault/Rain", "Rain", {"aliases": ["Water from above"]}),
        ("vault/garden/Rain", "Rain here", {}),
        ("vault/kitchen/Bread", "How to bake bread", {}),
    ):
        note = editing.new_document(NOTE, {"title": title, "content": f"text of {id}"})
        library.store.save([replace(note, id=id, source="notes", source_id=id, metadata=metadata)])


@pytest.mark.parametrize(
    ("target", "of", "found"),
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
)
def test_a_link_leads_to_the_note_that_it_means(
    client: TestClient, library: recollect.Library, target: str, of: str, found: str
) -> None:
    notes(library)
    html = client.get(links.note_link(target, of)).text
    assert f"text of {found}" in shown(html)
    assert f'data-address="{links.item_url("notes", found)}"' in html


def test_a_link_to_a_note_that_is_not_there_offers_to_write_it(
    client: TestClient, library: recollect.Library
) -> None:
    notes(library)
    html = client.get(links.note_link("Snow & ice", "vault/Rain")).text
    assert "There is no note called Snow & ice" in shown(html)
    new = re.search(r'href="(/knowledge/notes\?new[^"]*name=[^"]*)"', html)
    assert new
    assert form_of(client.get(unescape(new[1])).text)["title"] == ["Snow & ice"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "[[A b]]",
            '<a class="wiki" href="/knowledge/notes?link=A%20b&amp;of=n" rel="noopener noreferrer nofollow">A',
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
def test_links_of_notes_lead_to_notes_and_nowhere_else(text: str, html: str) -> None:
    assert html in rendering.note(text, "n")


def test_lines_end_where_the_writer_ended_them() -> None:
    assert "<br>" in rendering.note(
        "Roses are red,\nviolets are blue,\nsugar is sweet,\nand so are you.", "n"
    )
    wrapped = "\n".join(
        ["A line that a program ended at a margin of about eighty characters or so, as"] * 5
    )
    assert "<br>" not in rendering.note(f"# Title\n\n{wrapped}\n\n- one\n- two", "n")


@given(st.text(alphabet='[]|!.md#ab(/)"<>&\\\n` ', max_size=60), st.text(max_size=10))
def test_no_note_makes_a_link_into_the_console_but_to_notes(text: str, id: str) -> None:
    for address in re.findall(r'href="([^"]*)"', rendering.note(text, id)):
        assert address.startswith(("/knowledge/notes?link=", "http://", "https://", "mailto:"))


def test_a_long_note_is_shown_in_parts(client: TestClient, library: recollect.Library) -> None:
    text = "\n\n".join(f"Paragraph {n} of a long note. " * 20 for n in range(600))
    made = library.knowledge.create("notes", {"title": "Long", "content": text})
    html = client.get(f"/knowledge/notes/{made.id}").text
    assert "Paragraph 0 of" in html
    assert "Paragraph 599 of" not in html
    following = re.search(r'data-more="after" data-p="(\d+)"', html)
    seen = html
    while following:
        part = client.get(
            f"/console/part?source=notes&id={made.id}&p={following[1]}", headers=PART
        ).text
        seen += part
        following = re.search(r'data-more="after" data-p="(\d+)"', part)
    assert "Paragraph 599 of" in seen
    assert "Show what comes before" in client.get(f"/knowledge/notes/{made.id}?p=400").text
    pieces = re.findall(r'<span id="p=\d+">(.*?)</span>', seen, re.DOTALL)
    assert unescape("".join(pieces)) == text


# -- media ---


def test_a_transcript_has_times_to_go_to(client: TestClient, library: recollect.Library) -> None:
    made = library.knowledge.create(
        "media",
        {
            "title": "On moss",
            "media_type": "video",
            "transcript": VTT,
            "url": "https://youtu.be/abc",
            "author": "Ann",
        },
    )
    html = client.get(f"/knowledge/media/{made.id}").text
    assert '<a class="clock" href="#t=1"' in html
    assert '<a class="clock" href="#t=123" title="Link to this second">2:03</a>' in html
    assert '<span id="t=123" data-t="123.5">With its leaves.</span>' in html
    assert 'href="https://youtu.be/abc?t=123s"' in html
    assert "<strong>Bob</strong>" in html
    assert "Subtitles, SRT" in html
    assert "video by Ann youtu.be" in shown(html)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "/logout", "//evil.example", "https://"]
)
def test_only_addresses_of_the_web_become_links(
    client: TestClient, library: recollect.Library, url: str
) -> None:
    made = library.knowledge.create("media", {"title": "On moss", "transcript": VTT, "url": url})
    html = client.get(f"/knowledge/media/{made.id}").text
    assert "watch" not in html
    assert f'href="{url}"' not in html


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
def test_a_recording_is_played_from_a_second(address: str, there: str) -> None:
    assert links.at_second(address, 62.9) == there


def test_times_are_written_as_people_do() -> None:
    assert [items.clock(s) for s in (0, 62.9, 3600, 36_061)] == [
        "0:00",
        "1:02",
        "1:00:00",
        "10:01:01",
    ]


def test_pages_of_a_document_are_told(client: TestClient, library: recollect.Library) -> None:
    from recollect.importers.items import with_text

    text = "First page. " * 200 + "Second page. " * 200
    document = Document(
        "media", "paper.pdf", "Paper", MEDIA, metadata={"media_type": "pdf", "pages": 2}, id="paper"
    )
    library.store.save([with_text(document, text, [0, 2400])])
    html = client.get("/knowledge/media/paper").text
    assert '<span class="leaf" id="page=1">Page 1</span>' in html
    assert '<span class="leaf" id="page=2">Page 2</span>' in html
    assert "2 pages" in shown(html)


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
        document = library.store.document(id)
        first, *rest = document.passages
        avatar = {
            "type": "avatar",
            "media_type": media_type,
            "data": base64.b64encode(picture).decode(),
        }
        library.store.rewrite(
            id, replace(document, passages=(first._replace(attachments=(avatar,)), *rest))
        )
    return id


def test_a_character_is_shown_with_its_picture_and_fields(
    client: TestClient, library: recollect.Library
) -> None:
    id = character(library, POINT)
    html = client.get("/knowledge/characters/Fern").text
    assert f'data-id="{id}"' in html, "a character is known by its name too"
    assert "An <em>old</em> gardener." in html
    assert 'data-copy-text="first_message"' in html
    said = shown(html)
    assert "Other greetings Copy Hello! Hello! Hi. Hi." in said
    assert "Lorebook Copy door Four doors ." in said
    picture = client.get(f"/console/picture?id={id}")
    assert picture.content == POINT
    assert picture.headers["content-type"] == "image/png"
    assert client.get(f"/console/text?source=characters&id={id}&field=first_message").text == "Oh."
    assert client.get(f"/console/text?source=characters&id={id}&field=none").status_code == 404
    assert f"/console/picture?id={id}&amp;v=2" in client.get("/knowledge/characters").text


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/pdf", ""])
def test_only_pictures_are_given_out_as_pictures(
    client: TestClient, library: recollect.Library, media_type: str
) -> None:
    id = character(library, b"<script>alert(1)</script>", media_type)
    answer = client.get(f"/console/picture?id={id}")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert b"script" not in answer.content
    assert b">F</text>" in answer.content


def test_a_prompt_is_shown_field_by_field(client: TestClient, library: recollect.Library) -> None:
    made = library.knowledge.create(
        "prompts",
        {
            "name": "Ask",
            "author": "Ann",
            "details": "For *plants*.",
            "user_prompt": "Explain {{topic}}\n*as is*",
        },
    )
    html = client.get(f"/knowledge/prompts/{made.id}").text
    assert "For <em>plants</em>." in html
    assert '<pre class="plain">Explain {{topic}}\n*as is*</pre>' in html
    assert (
        client.get(f"/console/text?source=prompts&id={made.id}&field=user_prompt").text
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


def test_one_search_finds_everything(client: TestClient, library: recollect.Library) -> None:
    fill(library)
    html = client.get("/?q=pear").text
    said = shown(html)
    assert "4 results for pear" in said
    assert "A <mark>pear</mark> &lt;b&gt;note&lt;/b&gt;" in html
    assert 'href="/c/c?m=m&amp;q=pear"' in html
    assert re.search(r'href="/knowledge/media/[^"?]*\?q=pear#t=123"', html)
    assert re.search(r'href="/knowledge/prompts/[^"?]*\?q=pear#f-user_prompt"', html)
    assert "at 2:03" in said
    assert "Everything Conversations Notes Media Characters Prompts" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("in=notes", "1 note for pear"),
        ("in=conversations", "1 message for pear"),
        ("in=characters", "No results"),
        ("tag=fruit", "No results"),
        ("in=notes&tag=fruit", "1 note for"),
        ("in=notes&tag=other", "No results"),
        ("in=nonsense", "4 results"),
    ],
)
def test_a_search_is_narrowed_to_a_kind(
    client: TestClient, library: recollect.Library, asked: str, said: str
) -> None:
    fill(library)
    assert said in shown(client.get(f"/console/hits?q=pear&{asked}", headers=PART).text)


def test_a_library_of_conversations_is_searched_as_before(
    client: TestClient, library: recollect.Library
) -> None:
    library.add_conversation("c", "On pears", messages=[{"role": "user", "content": "a pear tree"}])
    html = client.get("/?q=pear").text
    assert "1 message" in shown(html)
    assert "data-within-of" not in html


def test_everything_is_found_once_page_by_page(
    client: TestClient, library: recollect.Library
) -> None:
    for n in range(45):
        library.knowledge.create("notes", {"title": f"Note {n}", "content": f"a pear {n}"})
    found: list[str] = []
    following: str | None = "0"
    while following:
        html = client.get(f"/console/hits?q=pear&offset={following}", headers=PART).text
        found += re.findall(r'class="title">(Note \d+)<', html)
        following = (
            match[1]
            if "more-hits" in html and (match := re.search(r'data-next="(\d+)"', html))
            else None
        )
    assert sorted(found) == sorted(f"Note {n}" for n in range(45))


# -- writing ---

WRITTEN: list[tuple[str, dict[str, list[str]], str]] = [
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


@pytest.mark.parametrize(("source", "fields", "said"), WRITTEN, ids=[w[0] for w in WRITTEN])
def test_what_is_written_is_made_and_left_alone_stays_as_it_is(
    client: TestClient,
    library: recollect.Library,
    source: str,
    fields: dict[str, list[str]],
    said: str,
) -> None:
    form = form_of(client.get(f"/knowledge/{source}?new=true").text)
    answer = send(client, f"/knowledge/{source}", form | fields)
    assert answer.status_code == 303
    address = answer.headers["location"]
    assert said in client.get(address).text
    (about,), _ = library.knowledge.list(source)
    before = library.store.document(about.id)
    edit = client.get(f"{address}?edit=true")
    assert send(client, address, form_of(edit.text)).status_code == 303
    assert library.store.document(about.id) == before
    assert library.store.summary(about.id).version == about.version


@pytest.mark.parametrize("source", [w[0] for w in WRITTEN])
def test_only_what_was_changed_is_saved(
    client: TestClient, library: recollect.Library, source: str
) -> None:
    fields = {name: values for w in WRITTEN if w[0] == source for name, values in w[1].items()}
    address = send(client, f"/knowledge/{source}", fields).headers["location"]
    form = form_of(client.get(f"{address}?edit=true").text)
    first = "name" if source in ("characters", "prompts") else "title"
    (about,), _ = library.knowledge.list(source)
    before = library.store.document(about.id)
    assert send(client, address, form | {first: ["Another"]}).status_code == 303
    after = library.store.document(about.id)
    assert after.title == "Another"
    assert [p.content for p in after.passages][1:] == [p.content for p in before.passages][1:]
    if source == "characters":
        assert after.metadata["card"]["alternate_greetings"] == ["Hello!", "Hi."]
    if source == "media":
        assert [p.metadata["cues"] for p in after.passages] == [
            p.metadata["cues"] for p in before.passages
        ]


def test_line_ends_that_a_form_cannot_keep_change_nothing(
    client: TestClient, library: recollect.Library
) -> None:
    made = library.knowledge.create(
        "notes", {"title": "Old", "content": "\r\none\r\ntwo\rthree\n\n"}
    )
    form = form_of(client.get(f"/knowledge/notes/{made.id}?edit=true").text)
    send(client, f"/knowledge/notes/{made.id}", form | {"keywords": ["new"]})
    after = library.store.document(made.id)
    assert after.passages[0].content == "\r\none\r\ntwo\rthree\n\n"
    assert after.metadata["tags"] == ["new"]


def test_who_was_slower_sees_what_the_other_one_changed(
    client: TestClient, library: recollect.Library
) -> None:
    made = library.knowledge.create(
        "notes", {"title": "Moss", "content": "one\ntwo\nthree", "keywords": ["old"]}
    )
    address = f"/knowledge/notes/{made.id}"
    form = form_of(client.get(f"{address}?edit=true").text)
    library.knowledge.edit(
        "notes", made.id, {"content": "one\nTHEIRS\nthree", "keywords": ["theirs"]}
    )
    answer = send(client, address, form | {"content": ["one\r\nMINE\r\nthree"]})
    assert answer.status_code == 409
    said = shown(answer.text)
    assert "Somebody changed this note while you were writing (version 2" in said
    assert "- THEIRS" in said
    assert "+ MINE" in said
    assert library.store.document(made.id).passages[0].content == "one\nTHEIRS\nthree"
    again = form_of(answer.text)
    assert again["content"] == ["one\r\nMINE\r\nthree"]
    assert again["keywords"] == ["theirs"], "what I left alone is as it is now"
    assert send(client, address, again).status_code == 303
    after = library.store.document(made.id)
    assert after.passages[0].content == "one\nMINE\nthree"
    assert after.metadata["tags"] == ["theirs"]


def test_what_was_deleted_meanwhile_can_be_made_anew(
    client: TestClient, library: recollect.Library
) -> None:
    made = library.knowledge.create("notes", {"title": "Moss", "content": "one"})
    form = form_of(client.get(f"/knowledge/notes/{made.id}?edit=true").text)
    library.knowledge.delete("notes", made.id)
    answer = send(client, f"/knowledge/notes/{made.id}", form | {"content": ["mine"]})
    assert answer.status_code == 409
    assert "deleted meanwhile" in shown(answer.text)
    again = form_of(answer.text)
    assert send(client, "/knowledge/notes", again).status_code == 303
    (anew,), _ = library.knowledge.list("notes")
    assert (anew.title, library.store.document(anew.id).passages[0].content) == ("Moss", "mine")


def test_what_is_wrong_is_said_and_nothing_is_lost(
    client: TestClient, library: recollect.Library
) -> None:
    answer = send(client, "/knowledge/prompts", {"name": [" "], "user_prompt": ["a long text"]})
    assert answer.status_code == 400
    assert "needs a name" in shown(answer.text)
    assert form_of(answer.text)["user_prompt"] == ["a long text"]
    assert library.knowledge.list("prompts")[1] == 0
    assert client.post("/knowledge/notes", json={"title": "x"}).status_code == 415
    assert (
        send(client, "/knowledge/notes", {f"x{n}": ["y"] for n in range(1000)}).status_code == 400
    )


def test_a_page_of_another_site_cannot_write(
    client: TestClient, library: recollect.Library
) -> None:
    body = urlencode({"title": "x"})
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": "https://evil.example",
    }
    assert client.post("/knowledge/notes", content=body, headers=headers).status_code == 403
    assert library.knowledge.list("notes")[1] == 0


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_digest_tells_apart_what_a_form_can(one: str, other: str) -> None:
    def as_sent(text: str) -> str:
        return writing._lines(recollect.text.storable(text))

    assert (writing.digest(one) == writing.digest(other)) == (as_sent(one) == as_sent(other))


# -- who may ---


def test_a_key_that_may_only_read_is_given_no_form(
    client: TestClient, new_user_key: Callable[..., str]
) -> None:
    headers = {"Authorization": f"Bearer {new_user_key(scopes=('read',))}"}
    assert client.get("/knowledge/notes", headers=headers).status_code == 200
    assert client.get("/knowledge/notes?new=true", headers=headers).status_code == 403
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    assert client.post("/knowledge/notes", content="title=x", headers=headers).status_code == 403


def test_a_key_for_conversations_alone_sees_no_notes(
    client: TestClient, library: recollect.Library, new_user_key: Callable[..., str]
) -> None:
    fill(library)
    headers = {"Authorization": f"Bearer {new_user_key(toolsets=['conversations'])}"}
    for page in (
        "/knowledge/notes",
        "/console/rows?source=notes",
        "/console/sidebar?source=notes",
        "/?q=pear&in=notes",
        "/?q=pear&in=all",
        "/console/filters?source=notes",
        "/console/text?source=notes&id=x",
        "/console/picture?id=Fern",
        "/console/part?source=notes&id=x",
    ):
        assert client.get(page, headers=headers).status_code == 403, page
    html = client.get("/?q=pear", headers=headers).text
    assert "1 message" in shown(html)
    assert "data-tab" not in html


def test_an_agent_does_not_read_what_is_for_people(
    client: TestClient, library: recollect.Library, new_user_key: Callable[..., str]
) -> None:
    made = library.knowledge.create("notes", {"title": "N", "content": "the password is swordfish"})
    document = library.store.document(made.id)
    hidden = tuple(p._replace(visibility="human_only") for p in document.passages)
    library.store.rewrite(made.id, replace(document, passages=hidden))
    agent, person = new_user_key(agent=True), new_user_key()
    for page in (
        f"/knowledge/notes/{made.id}",
        f"/knowledge/notes/{made.id}?edit=true",
        "/?q=swordfish&in=all",
        f"/console/text?source=notes&id={made.id}",
        f"/console/part?source=notes&id={made.id}",
    ):
        for key, allowed in ((agent, False), (person, True)):
            html = client.get(page, headers={"Authorization": f"Bearer {key}"}).text
            assert ("password is" in html) is allowed, page


# -- whatever is stored ---


@pytest.mark.parametrize(
    "id", ["a/b", "a b?c#d&e=f", "..", ".", "日本", "'\"<>", "a//b/", "new", "search"]
)
def test_ids_may_hold_any_character(
    client: TestClient, library: recollect.Library, id: str
) -> None:
    note = replace(
        editing.new_document(NOTE, {"title": "Odd", "content": "still here"}),
        id=id,
        source="notes",
        source_id=id,
    )
    library.store.save([note])
    link = re.search(r'class="row" href="([^"]*)"', client.get("/knowledge/notes").text)
    assert link
    address = unescape(link[1])
    html = client.get(address).text
    assert "still here" in html
    edit = re.search(r'href="([^"]*)" data-edit', html)
    assert edit
    form = form_of(client.get(unescape(edit[1])).text)
    assert send(client, address, form | {"title": ["Even"]}).status_code == 303
    assert library.store.summary(id).title == "Even"


@pytest.mark.parametrize("kind", [NOTE, MEDIA, CHARACTER, PROMPT])
def test_nothing_stored_becomes_markup(
    client: TestClient, library: recollect.Library, kind: str
) -> None:
    source = items_of(kind)
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
    about = {**document.metadata, "file": NASTY, "aliases": [NASTY], "front_matter": {NASTY: NASTY}}
    library.store.save([replace(document, id=NASTY, metadata=about)])
    address = links.item_url(source, NASTY)
    pages = [
        f"/knowledge/{source}",
        address,
        f"{address}?edit=true",
        f"{address}?q={quote(NASTY)}",
        "/?q=pear",
        f"/?q=pear&in={source}",
        f"/knowledge/{source}?tag={quote(NASTY)}&title={quote(NASTY)}",
        links.note_link(f"x{NASTY}", NASTY),
        f"/console/sidebar?source={source}",
    ]
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        assert "style=" not in answer.text
        assert not re.search(r"<[^>]* on\w+=", re.sub(r'"[^"]*"', '""', answer.text))
        assert all(
            a.startswith(("/static/", "/console/"))
            for a in re.findall(r'src="([^"]*)"', answer.text)
        )


def items_of(kind: str) -> str:
    return {NOTE: "notes", MEDIA: "media", CHARACTER: "characters", PROMPT: "prompts"}[kind]


def test_what_is_not_there_is_told(client: TestClient) -> None:
    for source in ("notes", "media", "characters", "prompts"):
        answer = client.get(f"/knowledge/{source}/nowhere")
        assert answer.status_code == 404
        assert "<h1>Not found</h1>" in answer.text
    assert client.get("/console/picture?id=nowhere", headers=PART).status_code == 404
