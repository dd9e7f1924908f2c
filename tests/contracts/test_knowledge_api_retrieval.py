"""The Knowledge API: locations and retrieval (docs/contracts/knowledge-api.md)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from clauses import proves
from hypothesis import given
from hypothesis import strategies as st
from knowledge_items import (
    COAST,
    ITEMS,
    Audience,
    Cue,
    count_tokens,
    get,
    media,
    note,
    prompt,
    save,
    search,
    video,
)
from selection import few

from recollect import Library, Passage
from recollect.errors import InvalidInput, NotFound

# -- locations ----------------------------------------------------------------


def chunks_of(library: Library, item_id: str) -> list[Passage]:
    """The chunks of an item as they are stored."""
    return list(library._store.document(item_id).passages)


@proves("C3-11")
@pytest.mark.every_state
def test_media_are_located_by_chunk_and_second(collection: Library) -> None:
    chunks = chunks_of(collection, "talk.mp4")
    assert len(chunks) > 3
    text = "".join(chunk.content for chunk in chunks)
    for n in (0, 77, 149):
        (hit,) = search(collection, f'"number {n}"', sources=["media"])
        (chunk,) = [c for c in chunks if f"number {n}." in c.content]
        assert hit["loc"] == {
            "media_id": "talk.mp4",
            "chunk_index": chunk.position,
            "chunk_uuid": chunk.id,
            "approx_offset": text.index(f"number {n}."),
            "seconds": 2 * n,
        }
        for names in (["chunk_index"], ["chunk_uuid"], ["seconds"], ["approx_offset"], hit["loc"]):
            loc = {name: hit["loc"][name] for name in names}
            answer = get(collection, "media", "talk.mp4", mode="chunk", loc=loc)
            assert answer["content"] == chunk.content


@proves("C3-12")
@pytest.mark.every_state
def test_notes_are_located_by_chunk_and_offset(collection: Library) -> None:
    hit = search(collection, "page33", sources=["notes"])[0]
    text = get(collection, "notes", "Coast", mode="full")["content"]
    assert text[hit["loc"]["approx_offset"] :].startswith("page33")
    chunk = get(
        collection, "notes", "Coast", mode="chunk", loc={"chunk_index": hit["loc"]["chunk_index"]}
    )
    assert "page33" in chunk["content"]


@proves("C3-13")
@pytest.mark.every_state
def test_chats_are_located_by_message(collection: Library) -> None:
    hit = search(collection, "foghorn", sources=["chats"])[0]
    assert hit["loc"] == {"conversation_id": "chat", "message_id": "chat:2", "message_index": 2}
    assert (hit["sender"], hit["message_id"]) == ("Kim", "chat:2")


@proves("C3-14")
@pytest.mark.every_state
def test_fields_are_located_by_name_and_offset(collection: Library) -> None:
    (hit,) = search(collection, "lighthouse", sources=["characters"])
    assert hit["loc"]["field"] == "description"
    assert hit["loc"]["approx_offset"] == len("She lives in a ")
    (hit,) = search(collection, "lighthouse", sources=["prompts"])
    assert hit["loc"]["field"] == "system_prompt"


FILLER = "Nothing is said here. " * 20
"""Longer than a snippet, and shorter than a chunk."""


@proves("C3-11")
@pytest.mark.every_state
@pytest.mark.every_store
def test_a_page_is_that_of_the_match(library: Library) -> None:
    slides = [f"Slide {n} is about the {word}.\n\n" for n, word in enumerate(ANIMALS, 1)]
    starts = [len("".join(slides[:n])) for n in range(len(slides))]
    save(library, media("deck.pptx", "".join(slides), "pptx", pages=starts))
    for page, word in enumerate(ANIMALS, 1):
        (hit,) = search(library, f'"{word}"', sources=["media"])
        assert hit["loc"]["page"] == page
        answer = get(library, "media", "deck.pptx", query=f'"{word}"')
        assert answer["meta"]["loc"]["page"] == page
    # The words of the query together, not the first of them.
    (hit,) = search(library, '"slide" narwhal', sources=["media"])
    assert hit["loc"]["page"] == ANIMALS.index("narwhal") + 1


ANIMALS = ("walrus", "gecko", "narwhal", "bison", "tapir")


# -- retrieval ----------------------------------------------------------------


@proves("C3-15")
@pytest.mark.every_state
@pytest.mark.every_store
def test_the_location_of_a_result_leads_to_the_match_in_every_mode(library: Library) -> None:
    text = f"{FILLER}Then the narwhal sang. {FILLER}"
    save(library, note("Sea", text), media("sea.pdf", text), prompt("Diver", details=text))
    save(library, video("sea.mp4", [Cue(0, 5, FILLER), Cue(5, 9, "Narwhal!"), Cue(9, 12, FILLER)]))
    message = {"id": "m", "role": "user", "content": text}
    library.add_conversation("sea", messages=[{"role": "user", "content": "Hello."}, message])
    hits = search(library, '"narwhal"')
    assert len(hits) == 5
    for hit in hits:
        for options in ({}, {"snippet_length": 60}, {"mode": "chunk", "max_tokens": 20}):
            answer = get(library, hit["source"], hit["id"], loc=hit["loc"], **options)
            assert "narwhal" in answer["content"].lower(), (hit["source"], options)
            assert answer["meta"]["loc"] == hit["loc"]
            assert answer["meta"]["message_id"] == hit["message_id"]
            assert "note" not in answer


# -- locations of items that have changed ---


@proves("C3-16")
@pytest.mark.every_state
def test_an_answer_says_that_the_passage_has_changed(library: Library) -> None:
    save(library, note("Sea", COAST, "Sea"), prompt("Diver", details="You see a narwhal."))
    hit = search(library, '"page33"', sources=["notes"])[0]
    text = COAST.replace("page33 that night", "page33 in the morning")
    library.knowledge.edit("notes", "Sea", {"content": "A new sentence here. " * 400 + text})
    changed = "has changed since this location was returned"
    by_query = get(library, "notes", "Sea", loc=hit["loc"], query='"page33"')
    assert "page33 in the morning" in by_query["content"]
    assert by_query["note"].endswith(f"{changed}. This is where the query matches now.")
    by_offset = get(library, "notes", "Sea", mode="chunk", loc=hit["loc"])
    assert by_offset["note"].endswith(f"{changed}. This is the text that is now in its place.")
    assert "page33" not in by_offset["content"]

    (hit,) = search(library, '"narwhal"', sources=["prompts"])
    library.knowledge.edit("prompts", "Diver", {"details": "You see two narwhals."})
    answer = get(library, "prompts", "Diver", loc=hit["loc"])
    assert answer["content"] == "You see two narwhals."
    assert changed in answer["note"]
    library.knowledge.edit("prompts", "Diver", {"details": "", "user_prompt": "Nothing."})
    assert changed in get(library, "prompts", "Diver", loc=hit["loc"])["note"]


@proves("C3-16")
@pytest.mark.parametrize(
    ("item", "loc"),
    [
        (("notes", "Coast"), {"chunk_index": 999}),
        (("chats", "chat"), {"message_index": 999}),
        (("prompts", "Keeper"), {"field": "author"}),
        (("media", "paper.pdf"), {"seconds": 3}),
    ],
)
def test_an_answer_says_that_a_location_is_not_in_the_item(
    collection: Library, item: tuple[str, str], loc: dict[str, Any]
) -> None:
    answer = get(collection, *item, loc=loc)
    assert answer["note"] == "The item has no such location. This is its beginning."
    by_query = get(collection, *item, loc=loc, query="lighthouse")
    assert by_query["note"] == "The item has no such location. This is where the query matches now."


@proves("C3-16")
@pytest.mark.parametrize("item", [("notes", "Coast"), ("media", "talk.mp4")])
def test_a_chunk_is_selected_by_uuid_index_or_offset(
    collection: Library, item: tuple[str, str]
) -> None:
    start = 0
    for chunk in chunks_of(collection, item[1]):
        end = start + len(chunk.content)
        for loc in (
            {"chunk_uuid": chunk.id},
            {"chunk_index": chunk.position},
            {"approx_offset": start},
            {"approx_offset": (start + end) // 2},
            {"approx_offset": end - 1},
        ):
            answer = get(collection, *item, mode="chunk", loc=loc)
            assert answer["content"] == chunk.content, loc
            (unit,) = answer["attachments"]
            assert (unit["chunk_index"], unit["chunk_uuid"]) == (chunk.position, chunk.id)
            assert (unit["start"], unit["end"]) == (0, len(chunk.content))
            assert answer["meta"]["loc"]["chunk_uuid"] == chunk.id
        start = end


@proves("C3-16")
def test_a_time_in_seconds_selects_the_chunk_spoken_at_that_time(collection: Library) -> None:
    chunks = chunks_of(collection, "talk.mp4")
    for second, number in ((0, 0), (1.9, 0), (2, 1), (101, 50), (299, 149), (9_999, 149)):
        answer = get(collection, "media", "talk.mp4", mode="chunk", loc={"seconds": second})
        (chunk,) = [c for c in chunks if f"number {number}." in c.content]
        assert answer["content"] == chunk.content, second


@proves("C3-16")
def test_the_chunk_of_a_chat_is_a_message_and_that_of_a_prompt_is_a_field(
    collection: Library,
) -> None:
    for loc in ({"message_id": "chat:2"}, {"message_index": 2}):
        answer = get(collection, "chats", "chat", mode="chunk", loc=loc)
        assert answer["content"] == "Kim: Then tell me of the foghorn.\n"
    loc = {"field": "user_prompt", "approx_offset": 3}
    answer = get(collection, "prompts", "Keeper", mode="chunk", loc=loc)
    assert answer["content"] == "user_prompt: What do you see?\n"


@proves("C3-17", "C3-18", "C3-19", "C3-23")
@given(data=st.data())
def test_no_answer_exceeds_its_budget_and_siblings_are_contiguous(
    collection: Library, data: st.DataObject
) -> None:
    source, item_id = data.draw(st.sampled_from(ITEMS))
    options: dict[str, Any] = {
        "mode": data.draw(st.sampled_from(["chunk", "chunk_with_siblings", "auto", "full"])),
        "max_tokens": data.draw(st.integers(1, 2_000)),
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
    answer = get(collection, source, item_id, **options)
    content = answer["content"]
    if isinstance(content, Mapping):
        content = "".join(content.values())
    assert count_tokens(content, options["chars_per_token"]) <= options["max_tokens"]
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
@pytest.mark.parametrize("item", [("notes", "Coast"), ("media", "talk.mp4")])
@pytest.mark.parametrize("budget", [300, 501, 750, 1_000, 50_000])
def test_siblings_fill_the_budget_on_both_sides(
    collection: Library, item: tuple[str, str], budget: int
) -> None:
    chunks = [chunk.content for chunk in chunks_of(collection, item[1])]
    for anchor in range(len(chunks)):
        options = {"max_tokens": budget, "loc": {"chunk_index": anchor}}
        answer = get(collection, *item, mode="chunk_with_siblings", **options)
        numbers = [unit["chunk_index"] for unit in answer["attachments"]]
        first, last = numbers[0], numbers[-1]
        assert numbers == [*range(first, last + 1)]
        assert first <= anchor <= last
        assert answer["content"] == "".join(chunks[first : last + 1])
        assert count_tokens(answer["content"]) <= budget
        if first > 0:
            assert count_tokens("".join(chunks[first - 1 : last + 1])) > budget
        if last < len(chunks) - 1:
            assert count_tokens("".join(chunks[first : last + 2])) > budget
        if first > 0 and last < len(chunks) - 1:
            assert abs((anchor - first) - (last - anchor)) <= 1


@proves("C3-18")
@pytest.mark.parametrize("mode", ["chunk", "chunk_with_siblings"])
@pytest.mark.parametrize("budget", [5, 16, 40])
def test_an_anchor_over_the_budget_is_truncated_around_the_match(
    collection: Library, mode: str, budget: int
) -> None:
    filler = "Nothing here. " * 30
    text = f"{filler}Then the narwhal sang. {filler}"
    save(collection, note("Sea", text), prompt("Diver", details=text))
    save(collection, media("sea.pdf", text))
    collection.add_conversation("sea", messages=[{"id": "m", "role": "user", "content": text}])
    for source, item_id in (
        ("notes", "Sea"),
        ("media", "sea.pdf"),
        ("prompts", "Diver"),
        ("chats", "sea"),
    ):
        (hit,) = search(collection, '"narwhal"', sources=[source])
        options = {"max_tokens": budget, "loc": hit["loc"], "query": "narwhal"}
        answer = get(collection, source, item_id, mode=mode, **options)
        assert len(answer["content"]) == 4 * budget
        assert answer["content"] in f"{hit['sender']}: {text}"
        assert "narwhal" in answer["content"], source
        (unit,) = answer["attachments"]
        assert (unit["start"], unit["end"], unit["cut"]) == (0, 4 * budget, True)


@proves("C3-20")
def test_an_item_over_the_length_limit_is_returned_in_pages(library: Library) -> None:
    text = "".join(f"Sentence number {n} of a very long text. " for n in range(6_000))
    save(library, note("Long", text))
    parts, offset = [], 0
    while True:
        answer = get(library, "notes", "Long", mode="full", offset=offset)
        assert len(answer["content"]) <= 100_000
        parts.append(answer["content"])
        assert answer["page"]["total"] == len(text)
        if answer["page"]["next_offset"] is None:
            break
        offset = answer["page"]["next_offset"]
    assert len(parts) == 3
    assert "".join(parts) == text


@proves("C3-20")
@pytest.mark.parametrize("size", [10, 2_000])
def test_pages_of_an_item_with_human_only_parts_neither_repeat_nor_skip(
    library: Library, size: int
) -> None:
    passages, start = [], 0
    for content in ("Before. ", "x" * size, "After it. " * 9):
        metadata = {"start": start, "end": start + len(content), "human_only": "x" in content}
        passages.append(Passage(content[:9], None, content, type="chunk", metadata=metadata))
        start += len(content)
    save(library, replace(note("Sea", ""), passages=tuple(passages)))
    text, offset = "", 0
    while offset is not None:
        budget = {"max_tokens": 6, "offset": offset}
        answer = library.knowledge.get("notes", "Sea", **budget, audience=Audience.AGENT_MASKED)
        text += answer["content"]
        offset = answer["page"]["next_offset"]
    assert text.startswith("Before. [human")
    assert text.endswith("After it. " * 9)


@proves("C3-21")
def test_auto_depends_on_the_token_budget(collection: Library) -> None:
    assert get(collection, "notes", "Coast", mode="auto")["attachments"] is None
    assert len(get(collection, "notes", "Coast", mode="auto", max_tokens=800)["attachments"]) > 1
    answer = collection.knowledge.get("notes", "Coast", mode="auto", max_tokens=800)
    assert len(answer["attachments"]) > 1


def split(library: Library, **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """The whole note in chunks of another size, with the start and end of each."""
    everything = {"mode": "chunk_with_siblings", "max_tokens": 50_000, "loc": {"approx_offset": 0}}
    answer = get(library, "notes", "Coast", **everything, **options)
    return answer["content"], answer["attachments"]


@proves("C3-22")
@pytest.mark.parametrize("size", [10, 30, 100, 400])
def test_text_is_split_again_into_chunks_of_the_requested_size(
    collection: Library, size: int
) -> None:
    text, chunks = split(collection, chunk_size_tokens=size)
    assert text == COAST
    assert [chunk["chunk_index"] for chunk in chunks] == [*range(len(chunks))]
    assert [chunk["start"] for chunk in chunks[1:]] == [chunk["end"] for chunk in chunks[:-1]]
    sizes = [count_tokens(chunk["end"] - chunk["start"]) for chunk in chunks]
    assert max(sizes) <= size
    assert len(chunks) <= 3 * count_tokens(COAST) / size
    wide = {"chunk_size_tokens": size, "chars_per_token": 2}
    _, narrower = split(collection, **wide)
    assert max(chunk["end"] - chunk["start"] for chunk in narrower) <= 2 * size


@proves("C3-22")
@pytest.mark.parametrize("overlap", [15, 25])
def test_neighbouring_chunks_share_at_most_the_overlap(collection: Library, overlap: int) -> None:
    options = {"chunk_size_tokens": 50, "chunk_overlap_tokens": overlap}
    text, chunks = split(collection, **options)
    assert text == COAST, "the answer repeats nothing"
    pairs = itertools.pairwise(chunks)
    shared = [count_tokens(before["end"] - after["start"]) for before, after in pairs]
    assert all(0 <= size <= overlap for size in shared)
    assert sum(size > 0 for size in shared) > len(shared) / 2
    assert all(count_tokens(chunk["end"] - chunk["start"]) <= 50 for chunk in chunks)
    middle = chunks[1]
    loc = {"approx_offset": middle["start"] + 1}
    one = get(collection, "notes", "Coast", mode="chunk", loc=loc, chunk_size_tokens=50)
    assert one["content"] in COAST
    assert count_tokens(one["content"]) <= 50


@proves("C3-22")
@pytest.mark.parametrize("item", [("notes", "Coast"), ("media", "talk.mp4")])
def test_stored_chunks_are_used_if_preferred(collection: Library, item: tuple[str, str]) -> None:
    chunk = chunks_of(collection, item[1])[2]
    options = {"mode": "chunk", "loc": {"chunk_uuid": chunk.id}}
    for preference in ({}, {"prefer_prechunked": True, "chunk_size_tokens": 30}):
        answer = get(collection, *item, **options, **preference)
        assert answer["content"] == chunk.content
        assert answer["attachments"][0]["chunk_uuid"] == chunk.id
    for preference in (
        {"chunk_size_tokens": 30},
        {"chunk_size_tokens": 30, "prefer_prechunked": False},
    ):
        answer = get(collection, *item, **options, **preference)
        assert count_tokens(answer["content"]) <= 30
        assert answer["content"] in chunk.content
    without = get(collection, *item, **options, prefer_prechunked=False)
    assert count_tokens(without["content"]) <= 250


@proves("C3-24")
@pytest.mark.every_state
@pytest.mark.parametrize(
    ("source", "item_id", "query"),
    few(
        [
            ("notes", "Coast", "page33"),
            ("media", "talk.mp4", "140"),
            ("chats", "chat", "foghorn"),
            ("prompts", "Keeper", "see"),
            ("characters", "Ada", "sailor"),
        ]
    ),
)
def test_without_a_location_a_search_in_the_item_finds_one(
    collection: Library, source: str, item_id: str, query: str
) -> None:
    answer = get(collection, source, item_id, mode="chunk", query=query)
    assert query in answer["content"]
    assert answer["meta"]["loc"] is not None


@proves("C3-25")
def test_the_messages_of_a_chat_are_lines_in_pages(collection: Library) -> None:
    collection.add_conversation(
        "long", messages=[{"role": "user", "content": f"message {n}"} for n in range(450)]
    )
    first = collection.knowledge.get("chats", "long")
    assert first["content"].splitlines()[:2] == ["user: message 0", "user: message 1"]
    assert len(first["attachments"]) == 50
    assert first["page"] == {
        "page": 1,
        "page_size": 50,
        "total": 450,
        "next_page": 2,
        "next_offset": 50,
        "truncated": False,
    }
    third = collection.knowledge.get("chats", "long", page=3, page_size=1_000)
    assert third["page"]["page_size"] == 200
    assert [row["message_index"] for row in third["attachments"]] == list(range(400, 450))
    for row in third["attachments"]:
        text = third["content"][row["start"] : row["end"]]
        assert text == f"user: message {row['message_index']}\n"
    around = get(
        collection,
        "chats",
        "long",
        mode="chunk_with_siblings",
        max_tokens=40,
        loc={"message_id": "long:200"},
    )
    assert "message 200" in around["content"]
    assert "message 199" in around["content"]
    assert "message 201" in around["content"]


@proves("C3-20", "C3-25")
@pytest.mark.parametrize("whole_answer", [False, True])
def test_offsets_lead_through_a_chat_if_a_budget_cuts_its_pages(
    collection: Library, whole_answer: bool
) -> None:
    messages = [{"role": "user", "content": f"message {n}"} for n in range(130)]
    messages[70]["content"] = "lighthouse " * 1_000
    collection.add_conversation("long", messages=messages)
    lines: list[str] = []
    offset: int | None = 0
    while offset is not None:
        assert offset == len(lines)
        budget = {"max_tokens": 400, "offset": offset, "whole_answer": whole_answer}
        answer = collection.knowledge.get("chats", "long", **budget)
        lines += answer["content"].splitlines()
        assert answer["attachments"][0]["message_index"] == offset
        assert answer["meta"]["loc"] is not None
        offset = answer["page"]["next_offset"]
    assert lines[:70] == [f"user: message {n}" for n in range(70)]
    assert lines[71:] == [f"user: message {n}" for n in range(71, 130)]
    past = get(collection, "chats", "long", mode="full", offset=1_000)
    assert (past["content"], past["page"]["next_offset"]) == ("", None)


@proves("C3-26")
def test_characters_and_prompts_are_returned_as_fields(collection: Library) -> None:
    assert collection.knowledge.get("characters", "Ada")["content"] == {
        "name": "Ada",
        "description": "She lives in a lighthouse by the sea.",
        "tags": "sailor, calm",
    }
    by_name = collection.knowledge.get("prompts", "keeper")
    assert by_name["content"]["system_prompt"] == "You keep a lighthouse."
    assert by_name == collection.knowledge.get("prompts", "Keeper")
    id_ = collection.knowledge.create("prompts", {"name": "By number", "user_prompt": "x"}).id
    by_id = collection.knowledge.get("prompts", id_)
    assert by_id["meta"] == collection.knowledge.get("prompts", "by number")["meta"]


@proves("C3-26")
def test_a_prompt_is_found_by_name_among_many_similar_names(library: Library) -> None:
    save(library, prompt("a", details="The one."))
    save(library, *(prompt(f"a {n}", details="Another.") for n in range(210)))
    library.knowledge.edit("prompts", "a 3", {"details": "Changed since."})
    assert library.knowledge.get("prompts", "A")["content"]["details"] == "The one."


@proves("C3-27")
def test_a_transcript_is_available_in_every_format(collection: Library) -> None:
    knowledge = collection.knowledge
    assert knowledge.transcript("talk.mp4").splitlines()[1] == "we come to lighthouse number 1."
    assert knowledge.transcript("talk.mp4", "text", True).splitlines()[1].startswith("[00:00:02]")
    srt = knowledge.transcript("talk.mp4", "srt")
    assert srt.startswith(
        "1\n00:00:00,000 --> 00:00:02,000\nwe come to lighthouse number 0.\n\n2\n"
    )
    assert knowledge.transcript("talk.mp4", "vtt").startswith(
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n"
    )
    segments = knowledge.transcript("talk.mp4", "json", True)["segments"]
    text = "we come to lighthouse number 3."
    assert len(segments) == 150
    assert segments[3] == {"start": 6, "end": 8, "text": text}
    assert knowledge.transcript("talk.mp4", "json")["segments"][3] == {"text": text}
    assert knowledge.transcript("paper.pdf").startswith("On the optics")
    with pytest.raises(InvalidInput, match="has no times"):
        knowledge.transcript("paper.pdf", "srt")
    with pytest.raises(InvalidInput, match="format"):
        knowledge.transcript("talk.mp4", "ass")


@proves("C3-28")
def test_a_missing_item_is_an_error_that_names_it(collection: Library) -> None:
    for source, message in (
        ("media", "Media not found: 7"),
        ("chats", "Conversation not found: 7"),
        ("notes", "Note not found: 7"),
        ("characters", "Character not found: 7"),
        ("prompts", "Prompt not found: 7"),
    ):
        with pytest.raises(NotFound, match=f"^{message}$"):
            collection.knowledge.get(source, 7)
    with pytest.raises(NotFound, match=r"^Media not found: Coast$"):
        collection.knowledge.get("media", "Coast")
    with pytest.raises(InvalidInput, match="source"):
        collection.knowledge.get("films", "7")
