"""Contract 3, search and retrieval across sources: every promise of the page that is not about MCP, on every store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clauses import proves
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.chunking import tokens
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.items import Cue, with_cues, with_fields, with_text
from recollect.library import Library
from recollect.manage.retrieval import WHOLE, retrieval
from recollect.model import CHARACTER, MEDIA, NOTE, PROMPT, Document
from recollect.serve.mcp.sessions import Session

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
FIELDS = {
    "id",
    "source",
    "title",
    "snippet",
    "uri",
    "score",
    "score_type",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "url",
    "conversation_id",
    "message_id",
    "sender",
    "loc",
}
SECTION = "This is section {n}. It says little of note. The lighthouse keeper wrote page{n} that night.\n\n"


def note(
    id_: str, text: str, title: str = "", days: int = 0, tags: tuple[str, ...] = ()
) -> Document:
    at = NOW - timedelta(days=days)
    about = {"tags": list(tags)} if tags else {}
    return with_text(
        Document("notes", id_, title or id_, NOTE, created_at=at, updated_at=at, metadata=about),
        text,
    )


def media(id_: str, text: str, kind: str = "pdf", days: int = 0) -> Document:
    at = NOW - timedelta(days=days)
    about = {"media_type": kind, "url": "https://example.org/x"}
    return with_text(
        Document("media", id_, id_, MEDIA, created_at=at, updated_at=at, metadata=about), text
    )


def talk(id_: str, cues: list[Cue]) -> Document:
    return with_cues(
        Document("media", id_, id_, MEDIA, created_at=NOW, metadata={"media_type": "video"}), cues
    )


def prompt(name: str, **fields: str) -> Document:
    return with_fields(Document("prompts", name, source=PROMPT), {"name": name, **fields})


def character(name: str, **fields: str) -> Document:
    return with_fields(Document("characters", name, source=CHARACTER), {"name": name, **fields})


def keep(library: Library, *documents: Document) -> None:
    library.store.save(documents)


def found(library: Library, query: str, **more: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = library.knowledge.search(query, **more)["results"]
    return results


def uris(library: Library, query: str, **more: Any) -> list[str]:
    return [result["uri"] for result in found(library, query, **more)]


def get(library: Library, source: str, id_: str, **options: Any) -> dict[str, Any]:
    return library.knowledge.get(source, id_, retrieval(options, {}))


@pytest.fixture
def world(library: Library) -> Library:
    """A little of everything, with the lighthouse in it."""
    keep(
        library,
        note(
            "Coast",
            "".join(SECTION.format(n=n) for n in range(40)),
            "The coast",
            days=3,
            tags=("Sea", "work"),
        ),
        note("Bread", "Bake for an hour. The lighthouse has no oven.", days=30),
        media("paper.pdf", "On the optics of the lighthouse. " * 3, days=10),
        talk(
            "talk.mp4",
            [Cue(n * 2, n * 2 + 2, f"we come to lighthouse number {n}.") for n in range(150)],
        ),
        prompt(
            "Keeper",
            system_prompt="You keep a lighthouse.",
            user_prompt="What do you see?",
            keywords="sea, light",
        ),
        character("Ada", description="She lives in a lighthouse by the sea.", tags="sailor, calm"),
    )
    library.add_conversation(
        "chat",
        "About towers",
        created_at=NOW,
        messages=[
            {
                "role": "user",
                "content": "Who built the lighthouse?",
                "author": "Kim",
                "created_at": NOW,
            },
            {"role": "assistant", "content": "Nobody knows who built it.", "created_at": NOW},
            {
                "role": "user",
                "content": "Then tell me of the foghorn.",
                "author": "Kim",
                "created_at": NOW,
            },
        ],
    )
    library.add_conversation(
        "titled",
        "The lighthouse plan",
        created_at=NOW - timedelta(days=1),
        messages=[
            {
                "role": "user",
                "content": "Hello, where do we begin?",
                "created_at": NOW - timedelta(days=1),
            }
        ],
    )
    return library


# -- results -----------------------------------------------------------------


@pytest.mark.both_stores
@proves("C3-01")
def test_every_source_gives_the_same_fields(world: Library) -> None:
    results = found(world, "lighthouse")
    assert {r["source"] for r in results} == {"notes", "media", "chats", "characters", "prompts"}
    for result in results:
        assert result.keys() == FIELDS
        assert result["score_type"] in ("fts", "hybrid")
        assert (result["media_type"] is not None) == (result["source"] == "media")
        assert (result["conversation_id"] is not None) == (result["source"] == "chats")


@proves("C3-02")
def test_a_list_says_whether_more_follows(world: Library) -> None:
    first = world.knowledge.search("lighthouse", limit=3)
    assert first.keys() == {"results", "has_more", "next_offset", "total_estimated"}
    assert (first["has_more"], first["next_offset"], first["total_estimated"]) == (True, 3, 8)
    last = world.knowledge.search("lighthouse", limit=3, offset=6)
    assert (last["has_more"], last["next_offset"], len(last["results"])) == (False, None, 2)
    nothing = world.knowledge.search("zeppelin")
    assert nothing == {"results": [], "has_more": False, "next_offset": None, "total_estimated": 0}


@proves("C3-03", "C3-15")
def test_an_item_has_a_meta_a_content_and_attachments(world: Library) -> None:
    answer = get(world, "notes", "Coast", query="page33", snippet_length=60)
    assert answer.keys() == {"meta", "content", "attachments"}
    assert answer["meta"].keys() == FIELDS
    assert answer["content"] == answer["meta"]["snippet"]
    assert "page33" in answer["content"]
    assert len(answer["content"]) <= 60


@proves("C3-04")
def test_an_address_names_the_source_and_the_item(world: Library) -> None:
    assert set(uris(world, "lighthouse")) == {
        "notes://Coast",
        "notes://Bread",
        "media://paper.pdf",
        "media://talk.mp4",
        "characters://Ada",
        "prompts://Keeper",
        "chats://chat#chat%3A0",
        "chats://titled",
    }


@proves("C3-05", "C3-06")
def test_scores_are_spread_and_can_be_compared(world: Library) -> None:
    keep(
        world, note("Optics", "The optics of the lighthouse, in full.", "Optics of the lighthouse")
    )
    results = found(world, "optics of the lighthouse")
    scores = [r["score"] for r in results]
    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 4
    assert {r["id"] for r in results[:2]} == {"Optics", "paper.pdf"}, (
        "what has all of it stands first, whatever it is"
    )
    weak = {r["source"]: r["score"] for r in results if r["id"] in ("Keeper", "Ada", "chat")}
    assert max(weak.values()) < scores[1]
    assert uris(world, "optics of the lighthouse") == [r["uri"] for r in results]


@proves("C3-07", "C3-08")
@pytest.mark.parametrize("length", [50, 300, 1_000])
def test_a_snippet_lies_around_the_match_and_keeps_to_its_length(
    world: Library, length: int
) -> None:
    keep(
        world,
        note(
            "Long",
            "Nothing  here.\n\t" * 4_000
            + "<b>The narwhal</b>\n\n  sang. "
            + "Nothing here. " * 900,
        ),
    )
    keep(
        world,
        prompt(
            "Narwhal keeper",
            details="Nothing here. " * 90 + "Only then the narwhal. " + "Nothing. " * 90,
        ),
    )
    library = world
    library.add_conversation(
        "deep", messages=[{"role": "user", "content": "word " * 3_000 + "a narwhal " + "x " * 900}]
    )
    results = found(library, "narwhal", snippet_length=length)
    assert {r["source"] for r in results} == {"notes", "prompts", "chats"}
    for result in results:
        assert "narwhal" in result["snippet"].lower()
        assert len(result["snippet"]) <= length
        assert re.search(r"\s\s|\n|\t", result["snippet"]) is None


@proves("C3-09")
def test_a_title_that_was_found_stands_before_the_first_message(world: Library) -> None:
    (titled,) = [r for r in found(world, "lighthouse", sources=["chats"]) if r["id"] == "titled"]
    assert titled["snippet"] == "The lighthouse plan – Hello, where do we begin?"
    assert titled["message_id"] is None
    assert titled["loc"] == {"conversation_id": "titled"}


@proves("C3-10")
def test_times_versions_and_tags_are_told(world: Library) -> None:
    (coast,) = [r for r in found(world, "lighthouse", sources=["notes"]) if r["id"] == "Coast"]
    assert coast["tags"] == ["Sea", "work"]
    assert coast["created_at"] == coast["last_modified"] == "2026-03-01T12:00:00+00:00"
    assert coast["version"] == 1
    changed = world.knowledge.edit(
        "notes", "Coast", {"content": "The lighthouse is gone."}, version=1
    )
    assert changed.version == 2
    with pytest.raises(Conflict, match="version 2 now, not 1"):
        world.knowledge.edit("notes", "Coast", {"content": "No, it is not."}, version=1)
    (coast,) = [r for r in found(world, "lighthouse", sources=["notes"]) if r["id"] == "Coast"]
    assert coast["version"] == 2
    assert coast["last_modified"] > coast["created_at"]
    assert found(world, "page33") == [], "what an edit took out is not found"


# -- locations ----------------------------------------------------------------


@proves("C3-11")
def test_media_are_located_by_chunk_and_second(world: Library) -> None:
    (hit,) = found(world, '"number 77"', sources=["media"])
    assert hit["loc"].keys() >= {"media_id", "chunk_index", "chunk_uuid", "seconds"}
    assert hit["loc"]["media_id"] == "talk.mp4"
    assert hit["loc"]["seconds"] == 154
    chunk = get(world, "media", "talk.mp4", mode="chunk", loc=hit["loc"])
    assert "number 77." in chunk["content"]
    assert chunk["attachments"][0]["chunk_uuid"] == hit["loc"]["chunk_uuid"]


@proves("C3-12")
def test_notes_are_located_by_chunk_and_offset(world: Library) -> None:
    (hit,) = found(world, "page33", sources=["notes"])
    text = get(world, "notes", "Coast", mode="full")["content"]
    assert text[hit["loc"]["approx_offset"] :].startswith("page33")
    chunk = get(
        world, "notes", "Coast", mode="chunk", loc={"chunk_index": hit["loc"]["chunk_index"]}
    )
    assert "page33" in chunk["content"]


@proves("C3-13")
def test_chats_are_located_by_message(world: Library) -> None:
    (hit,) = found(world, "foghorn", sources=["chats"])
    assert hit["loc"] == {"conversation_id": "chat", "message_id": "chat:2", "message_index": 2}
    assert (hit["sender"], hit["message_id"]) == ("Kim", "chat:2")


@proves("C3-14")
def test_fields_are_located_by_name_and_offset(world: Library) -> None:
    (hit,) = found(world, "lighthouse", sources=["characters"])
    assert (hit["loc"]["field"], hit["loc"]["approx_offset"]) == (
        "description",
        len("She lives in a "),
    )
    (hit,) = found(world, "lighthouse", sources=["prompts"])
    assert hit["loc"]["field"] == "system_prompt"


# -- retrieval ------------------------------------------------------------------


@proves("C3-16")
@pytest.mark.parametrize("by", ["uuid", "index", "offset"])
def test_a_chunk_is_found_by_its_name_its_number_or_a_place_in_it(world: Library, by: str) -> None:
    (hit,) = found(world, "page21", sources=["notes"])
    loc = {
        "uuid": {"chunk_uuid": hit["loc"]["chunk_uuid"]},
        "index": {"chunk_index": hit["loc"]["chunk_index"]},
        "offset": {"approx_offset": hit["loc"]["approx_offset"]},
    }[by]
    answer = get(world, "notes", "Coast", mode="chunk", loc=loc)
    assert "page21" in answer["content"]
    assert answer["meta"]["loc"]["chunk_uuid"] == hit["loc"]["chunk_uuid"]


@proves("C3-16")
def test_a_second_names_the_chunk_in_which_it_is_said(world: Library) -> None:
    assert (
        "number 50."
        in get(world, "media", "talk.mp4", mode="chunk", loc={"seconds": 101})["content"]
    )
    assert (
        "number 149."
        in get(world, "media", "talk.mp4", mode="chunk", loc={"seconds": 9_999})["content"]
    )
    assert (
        "number 0." in get(world, "media", "talk.mp4", mode="chunk", loc={"seconds": 0})["content"]
    )


SOURCES = (
    ("notes", "Coast"),
    ("media", "talk.mp4"),
    ("chats", "chat"),
    ("characters", "Ada"),
    ("prompts", "Keeper"),
)


@proves("C3-17", "C3-18", "C3-19", "C3-23")
@given(data=st.data())
def test_no_answer_exceeds_its_budget_and_siblings_are_contiguous(
    world: Library, data: st.DataObject
) -> None:
    source, id_ = data.draw(st.sampled_from(SOURCES))
    options: dict[str, Any] = {
        "mode": data.draw(st.sampled_from(["chunk", "chunk_with_siblings", "auto", "full"])),
        "max_tokens": data.draw(st.integers(16, 2_000)),
        "chars_per_token": data.draw(st.sampled_from([1, 2.5, 4, 16])),
    }
    if data.draw(st.booleans()):
        options["sibling_window"] = data.draw(st.integers(0, 5))
    if source in ("notes", "media") and data.draw(st.booleans()):
        options["chunk_size_tokens"] = data.draw(st.integers(1, 300))
        options["chunk_overlap_tokens"] = data.draw(st.integers(0, 100))
    if data.draw(st.booleans()):
        options["query"] = data.draw(
            st.sampled_from(["lighthouse", "page33", "number 140", "foghorn", "zeppelin"])
        )
    answer = get(world, source, id_, **options)
    content = answer["content"]
    if isinstance(content, Mapping):
        content = "".join(content.values())
    assert tokens(content, options["chars_per_token"]) <= options["max_tokens"]
    units = answer["attachments"] or []
    if options["mode"] != "full" and units:
        assert units[0]["start"] == 0
        assert units[-1]["end"] == len(content)
        numbers = [unit.get("chunk_index", unit.get("message_index")) for unit in units]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if options["mode"] == "chunk" or options.get("sibling_window") == 0:
            assert len(units) == 1
        assert len(units) <= 1 + 2 * options.get("sibling_window", 1_000)


@proves("C3-17")
def test_siblings_fill_the_budget_on_both_sides(world: Library) -> None:
    (hit,) = found(world, "page20", sources=["notes"])
    answer = get(
        world, "notes", "Coast", mode="chunk_with_siblings", max_tokens=800, loc=hit["loc"]
    )
    numbers = [unit["chunk_index"] for unit in answer["attachments"]]
    assert numbers[0] < hit["loc"]["chunk_index"] < numbers[-1]
    text = get(world, "notes", "Coast", mode="full")["content"]
    assert answer["content"] in text
    longer = get(
        world, "notes", "Coast", mode="chunk_with_siblings", max_tokens=50_000, loc=hit["loc"]
    )
    assert longer["content"] == text


@proves("C3-18")
def test_an_anchor_that_is_too_long_is_cut_around_the_place(world: Library) -> None:
    (hit,) = found(world, "page33", sources=["notes"])
    answer = get(world, "notes", "Coast", mode="chunk_with_siblings", max_tokens=16, loc=hit["loc"])
    assert "page33" in answer["content"]
    assert tokens(answer["content"]) <= 16


@proves("C3-20")
def test_what_is_too_long_for_one_answer_comes_in_pages(library: Library) -> None:
    text = "".join(f"Sentence number {n} of a very long text. " for n in range(6_000))
    keep(library, note("Long", text))
    parts, at = [], 0
    while True:
        answer = get(library, "notes", "Long", mode="full", offset=at)
        assert len(answer["content"]) <= WHOLE
        parts.append(answer["content"])
        assert answer["page"]["total"] == len(text)
        if answer["page"]["next_offset"] is None:
            break
        at = answer["page"]["next_offset"]
    assert len(parts) == 3
    assert "".join(parts) == text


@proves("C3-21")
def test_auto_is_what_the_budget_says(world: Library) -> None:
    assert get(world, "notes", "Coast", mode="auto")["attachments"] is None
    assert len(get(world, "notes", "Coast", mode="auto", max_tokens=800)["attachments"]) > 1
    preferred = world.knowledge.get(
        "notes", "Coast", retrieval({"mode": "auto"}, {"max_tokens": 800})
    )
    assert len(preferred["attachments"]) > 1


@proves("C3-22")
def test_chunks_of_another_size_are_made_when_asked_for(world: Library) -> None:
    stored = get(world, "notes", "Coast", mode="chunk", query="page33")
    small = get(world, "notes", "Coast", mode="chunk", query="page33", chunk_size_tokens=30)
    kept = get(
        world,
        "notes",
        "Coast",
        mode="chunk",
        query="page33",
        chunk_size_tokens=30,
        prefer_prechunked=True,
    )
    assert stored["content"] == kept["content"]
    assert (
        small["content"] == "The lighthouse keeper wrote page33 that night.\n\n"
        or "page33" in small["content"]
    )
    assert tokens(small["content"]) <= 30
    shared = get(
        world,
        "notes",
        "Coast",
        mode="chunk_with_siblings",
        query="page33",
        chunk_size_tokens=30,
        chunk_overlap_tokens=15,
        sibling_window=1,
    )
    assert shared["content"] in get(world, "notes", "Coast", mode="full")["content"], (
        "no sentence comes twice"
    )
    assert shared["attachments"][1]["start"] < shared["attachments"][0]["end"]


@proves("C3-24")
@pytest.mark.parametrize(
    ("source", "id_", "query"),
    [
        ("notes", "Coast", "page33"),
        ("media", "talk.mp4", "140"),
        ("chats", "chat", "foghorn"),
        ("prompts", "Keeper", "see"),
        ("characters", "Ada", "sailor"),
    ],
)
def test_a_light_search_finds_the_place_where_none_is_given(
    world: Library, source: str, id_: str, query: str
) -> None:
    answer = get(world, source, id_, mode="chunk", query=query)
    assert query in answer["content"]
    assert answer["meta"]["loc"] is not None


@proves("C3-25")
def test_the_messages_of_a_chat_come_as_lines_and_in_pages(world: Library) -> None:
    world.add_conversation(
        "long", messages=[{"role": "user", "content": f"message {n}"} for n in range(450)]
    )
    first = world.knowledge.get("chats", "long")
    assert first["content"].splitlines()[:2] == ["user: message 0", "user: message 1"]
    assert len(first["attachments"]) == 50
    assert first["page"] == {
        "page": 1,
        "page_size": 50,
        "total": 450,
        "next_page": 2,
        "truncated": False,
    }
    third = world.knowledge.get("chats", "long", page=3, page_size=1_000)
    assert third["page"]["page_size"] == 200
    assert [row["message_index"] for row in third["attachments"]] == list(range(400, 450))
    for row in third["attachments"]:
        text = third["content"][row["start"] : row["end"]]
        assert text == f"user: message {row['message_index']}\n"
    around = get(
        world,
        "chats",
        "long",
        mode="chunk_with_siblings",
        max_tokens=40,
        loc={"message_id": "long:200"},
    )
    assert "message 200" in around["content"]
    assert "message 199" in around["content"]
    assert "message 201" in around["content"]


@proves("C3-26")
def test_characters_and_prompts_come_as_their_fields(world: Library) -> None:
    assert world.knowledge.get("characters", "Ada")["content"] == {
        "name": "Ada",
        "description": "She lives in a lighthouse by the sea.",
        "tags": "sailor, calm",
    }
    by_name = world.knowledge.get("prompts", "keeper")
    assert by_name["content"]["system_prompt"] == "You keep a lighthouse."
    assert by_name == world.knowledge.get("prompts", "Keeper")
    made = world.knowledge.create("prompts", {"name": "By number", "user_prompt": "x"})
    assert (
        world.knowledge.get("prompts", made.id)["meta"]
        == world.knowledge.get("prompts", "by number")["meta"]
    )


@proves("C3-26")
def test_a_name_is_found_among_any_number_that_hold_it(library: Library) -> None:
    keep(library, prompt("a", details="The one."))
    keep(library, *(prompt(f"a {n}", details="Another.") for n in range(210)))
    library.knowledge.edit("prompts", "a 3", {"details": "Changed since."})
    assert library.knowledge.get("prompts", "A")["content"]["details"] == "The one."


@proves("C3-27")
def test_a_transcript_comes_in_every_form(world: Library) -> None:
    knowledge = world.knowledge
    assert knowledge.transcript("talk.mp4").splitlines()[1] == "we come to lighthouse number 1."
    assert knowledge.transcript("talk.mp4", "text", True).splitlines()[1].startswith("[00:00:02]")
    srt = knowledge.transcript("talk.mp4", "srt")
    assert srt.startswith(
        "1\n00:00:00,000 --> 00:00:02,000\nwe come to lighthouse number 0.\n\n2\n"
    )
    assert knowledge.transcript("talk.mp4", "vtt").startswith(
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n"
    )
    timed = knowledge.transcript("talk.mp4", "json", True)["segments"]
    assert (len(timed), timed[3]) == (
        150,
        {"start": 6, "end": 8, "text": "we come to lighthouse number 3."},
    )
    assert knowledge.transcript("talk.mp4", "json")["segments"][3] == {
        "text": "we come to lighthouse number 3."
    }
    assert knowledge.transcript("paper.pdf").startswith("On the optics")
    with pytest.raises(InvalidInput, match="has no times"):
        knowledge.transcript("paper.pdf", "srt")
    with pytest.raises(InvalidInput, match="format"):
        knowledge.transcript("talk.mp4", "ass")


@proves("C3-28")
def test_what_is_not_there_is_told(world: Library) -> None:
    for source, told in (
        ("media", "Media not found: 7"),
        ("chats", "Conversation not found: 7"),
        ("notes", "Note not found: 7"),
        ("characters", "Character not found: 7"),
        ("prompts", "Prompt not found: 7"),
    ):
        with pytest.raises(NotFound, match=f"^{told}$"):
            world.knowledge.get(source, 7)
    with pytest.raises(NotFound, match=r"^Media not found: Coast$"):
        world.knowledge.get("media", "Coast")
    with pytest.raises(InvalidInput, match="source"):
        world.knowledge.get("films", "7")


# -- searching -----------------------------------------------------------------


@proves("C3-29")
def test_notes_are_filtered_by_keywords(world: Library) -> None:
    assert uris(
        world, "lighthouse", sources=["notes"], filters={"notes": {"keywords": ["sea"]}}
    ) == ["notes://Coast"]
    assert (
        uris(world, "lighthouse", sources=["notes"], filters={"notes": {"keywords": ["nothing"]}})
        == []
    )


@proves("C3-30")
def test_media_are_filtered_by_type_and_date(world: Library) -> None:
    def media_found(**filters: Any) -> set[str]:
        return set(uris(world, "lighthouse", sources=["media"], filters={"media": filters}))

    assert media_found() == {"media://paper.pdf", "media://talk.mp4"}
    assert media_found(media_types=["PDF"]) == {"media://paper.pdf"}
    assert media_found(media_types=["pdf", "video"]) == media_found()
    assert media_found(media_types=["epub"]) == set()
    assert media_found(date_from="2026-03-01") == {"media://talk.mp4"}
    assert media_found(date_to="2026-02-22") == {"media://paper.pdf"}
    assert media_found(date_to="2026-02-21") == set()
    with pytest.raises(InvalidInput, match="date_from"):
        media_found(date_from="yesterday-ish")
    assert dict(world.knowledge.media_types()) == {"pdf": 1, "video": 1}


@proves("C3-31")
def test_chats_are_found_by_title_or_message_and_filtered_before_any_limit(world: Library) -> None:
    for n in range(130):
        world.add_conversation(
            f"other-{n}",
            f"Chat {n}",
            metadata={"character_id": 5},
            messages=[{"role": "user", "content": "the lighthouse again", "author": "Lee"}],
        )

    def chats(**filters: Any) -> set[str]:
        return set(
            uris(world, "lighthouse", sources=["chats"], limit=100, filters={"chats": filters})
        )

    assert chats(by="title") == {"chats://titled"}
    assert "chats://titled" not in chats(by="message")
    assert chats(sender="kim") == {"chats://chat#chat%3A0"}
    assert len(chats(sender="Lee")) == len(chats(character_id=5)) == 100
    assert chats(sender="assistant") == set()
    assert chats(character_id="5", by="title") == set()
    messages = world.knowledge.search(
        "lighthouse", sources=["chats"], filters={"chats": {"by": "message"}}
    )
    assert messages["total_estimated"] == 131
    with pytest.raises(InvalidInput, match="by"):
        chats(by="author")


@proves("C3-32")
def test_prompts_are_searched_by_field_and_characters_by_tags(world: Library) -> None:
    def prompts(*fields: str) -> list[str]:
        return uris(
            world, "lighthouse", sources=["prompts"], filters={"prompts": {"fields": list(fields)}}
        )

    assert (
        prompts()
        == prompts("system_prompt")
        == prompts("name", "system_prompt")
        == ["prompts://Keeper"]
    )
    assert prompts("user_prompt") == prompts("name") == []
    assert uris(
        world, "keeper", sources=["prompts"], filters={"prompts": {"fields": ["name"]}}
    ) == ["prompts://Keeper"]
    assert (
        uris(world, "light", sources=["prompts"], filters={"prompts": {"fields": ["keywords"]}})
        != []
    )
    with pytest.raises(InvalidInput, match="fields"):
        prompts("colour")
    assert uris(world, "sailor, pirate", sources=["characters"]) == ["characters://Ada"]


@proves("C3-33")
def test_all_sources_are_searched_unless_some_are_named(world: Library) -> None:
    assert {r["source"] for r in found(world, "lighthouse", sources=["notes", "media"])} == {
        "notes",
        "media",
    }
    with pytest.raises(InvalidInput, match="source"):
        found(world, "lighthouse", sources=["films"])
    with pytest.raises(InvalidInput, match=r"filters\.notes"):
        found(world, "lighthouse", filters={"notes": {"colour": "red"}})
    with pytest.raises(InvalidInput, match="filters"):
        found(world, "lighthouse", filters={"films": {}})
    filtered = found(
        world,
        "lighthouse",
        filters={"notes": {"keywords": ["work"]}, "media": {"media_types": ["pdf"]}},
    )
    assert {r["id"] for r in filtered if r["source"] in ("notes", "media")} == {
        "Coast",
        "paper.pdf",
    }
    assert {r["source"] for r in filtered} == {"notes", "media", "chats", "characters", "prompts"}


@proves("C3-34")
def test_recent_means_by_time_and_what_has_no_date_is_last(world: Library) -> None:
    results = found(world, "lighthouse", order_by="recent")
    dates = [r["last_modified"] for r in results]
    dated = [d for d in dates if d is not None]
    assert dates == [*sorted(dated, reverse=True), *[None] * (len(dates) - len(dated))]
    assert {r["source"] for r in results if r["last_modified"] is None} == {"characters", "prompts"}
    assert results[0]["id"] in ("chat", "talk.mp4")
    assert len(results) == 8
    with pytest.raises(InvalidInput, match="order_by"):
        found(world, "lighthouse", order_by="colour")


@proves("C3-35")
@pytest.mark.parametrize("order", ["relevance", "recent"])
def test_paging_reaches_everything_once_and_drops_no_source(library: Library, order: str) -> None:
    keep(
        library,
        *(note(f"n{n}", f"The walrus of note {n}. " * (1 + n % 3), days=n) for n in range(180)),
    )
    keep(library, *(media(f"m{n}", f"A walrus in paper {n}.", days=n) for n in range(170)))
    keep(library, *(prompt(f"p{n}", details=f"Ask the walrus {n}.") for n in range(40)))
    library.add_conversation(
        "c",
        messages=[
            {"role": "user", "content": f"walrus {n} in a chat", "created_at": NOW}
            for n in range(260)
        ],
    )
    seen: list[str] = []
    sources: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = library.knowledge.search("walrus", limit=37, offset=offset, order_by=order)
        assert len(page["results"]) == (37 if page["has_more"] else len(page["results"]))
        seen += [r["uri"] for r in page["results"]]
        sources += [r["source"] for r in page["results"]]
        offset = page["next_offset"]
    assert len(seen) == len(set(seen)) == 180 + 170 + 40 + 260 == page["total_estimated"]
    assert {"notes", "media", "prompts", "chats"} == set(sources)
    assert len(set(sources[300:])) > 1, "deep pages have every source that is left"


@proves("C3-36")
def test_limits_are_clamped_and_queries_bounded(world: Library) -> None:
    assert len(world.knowledge.search("lighthouse", limit=-5)["results"]) == 1
    assert len(world.knowledge.search("lighthouse", limit=10_000, offset=-3)["results"]) == 8
    for query in ("", "  ", "x" * 1_001):
        with pytest.raises(InvalidInput, match="query"):
            world.knowledge.search(query)


def _pages(library: Library, session: Session, query: str, limit: int) -> Iterator[list[str]]:
    while True:
        yield [
            r["uri"]
            for r in library.knowledge.search(query, limit=limit, memory=session)["results"]
        ]


@proves("C3-37")
def test_a_session_is_given_each_result_once_and_then_starts_over(world: Library) -> None:
    session = Session()
    everything = uris(world, "lighthouse")
    pages = _pages(world, session, "lighthouse", 3)
    first, second, third, again = (next(pages) for _ in range(4))
    assert first + second + third == everything, "only what was returned counts as given"
    assert len(third) == 2
    assert again == first
    paged = Session()
    page = world.knowledge.search("lighthouse", limit=3, memory=paged)
    following = world.knowledge.search(
        "lighthouse", limit=3, offset=page["next_offset"], memory=paged
    )
    assert [r["uri"] for r in following["results"]] == everything[3:6], (
        "page two is the second page"
    )
    other = world.knowledge.search("foghorn", memory=paged)
    assert [r["uri"] for r in other["results"]] == ["chats://chat#chat%3A2"]


@proves("C3-38")
def test_chunks_are_whole_sentences_with_stable_names(world: Library) -> None:
    before = world.store.document("Coast")
    text = "".join(p.content for p in before.passages)
    assert text == "".join(SECTION.format(n=n) for n in range(40))
    assert all(text[p.metadata["start"] : p.metadata["end"]] == p.content for p in before.passages)
    assert all(p.content.rstrip().endswith(".") for p in before.passages)
    world.knowledge.edit("notes", "Coast", {"content": text + "One more sentence."})
    after = world.store.document("Coast")
    assert [p.id for p in before.passages][:-1] == [p.id for p in after.passages][
        : len(before.passages) - 1
    ]


@proves("C3-39")
def test_one_users_knowledge_is_not_anothers(world: Library, place: str) -> None:
    with recollect.open(place, "somebody-else") as other:
        assert other.knowledge.search("lighthouse")["total_estimated"] == 0
        for source, id_ in SOURCES:
            with pytest.raises(NotFound):
                other.knowledge.get(source, id_)
            with pytest.raises(NotFound):
                other.knowledge.delete(source, id_)
        assert other.knowledge.media_types() == []
