"""The Knowledge API: results and searching (docs/contracts/knowledge-api.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from clauses import proves
from knowledge_items import (
    COAST,
    FIELDS,
    ITEMS,
    NOW,
    Session,
    character,
    get,
    media,
    note,
    prompt,
    save,
    search,
    search_page,
    uris,
)
from selection import few
from states import settle

import recollect
from recollect import Library
from recollect.errors import Conflict, InvalidInput, NotFound

# -- results ------------------------------------------------------------------


@proves("C3-01")
@pytest.mark.every_state
@pytest.mark.every_store
def test_results_of_every_source_have_the_same_fields(collection: Library) -> None:
    results = search(collection, "lighthouse")
    assert {r["source"] for r in results} == {"notes", "media", "chats", "characters", "prompts"}
    for result in results:
        assert result.keys() == FIELDS
        assert result["score_type"] in ("fts", "vector", "hybrid")
        assert (result["media_type"] is not None) == (result["source"] == "media")
        assert (result["conversation_id"] is not None) == (result["source"] == "chats")


@proves("C3-02")
@pytest.mark.every_state
def test_a_list_tells_whether_more_results_follow(collection: Library) -> None:
    everything = search(collection, "lighthouse", limit=100)
    assert len(everything) >= 8
    pages: list[dict[str, Any]] = []
    more = True
    while more:
        page = search_page(collection, "lighthouse", limit=3, offset=len(pages))
        assert page.keys() == {"results", "has_more", "next_offset", "total_estimated"}
        pages += page["results"]
        more = len(pages) < len(everything)
        assert page["has_more"] is more
        assert page["next_offset"] == (len(pages) if more else None)
        assert page["total_estimated"] == len(everything)
    assert pages == everything
    beyond = search_page(collection, "lighthouse", offset=len(everything))
    assert (beyond["results"], beyond["has_more"], beyond["next_offset"]) == ([], False, None)


@proves("C3-02")
@pytest.mark.every_state
@pytest.mark.every_store
@pytest.mark.parametrize(
    ("order", "query"),
    [
        ("relevance", "lighthouse"),
        *(
            pytest.param(order, query, marks=pytest.mark.full)
            for order in ("relevance", "recent")
            for query in ("lighthouse", "zeppelin", "...")
            if (order, query) != ("relevance", "lighthouse")
        ),
    ],
)
def test_the_total_does_not_depend_on_the_offset(
    collection: Library, order: str, query: str
) -> None:
    count = len(search(collection, query, limit=100, order_by=order))
    for offset in (0, 3, count, 10_000):
        for history in (None, Session()):
            page = search_page(
                collection, query, offset=offset, limit=2, order_by=order, history=history
            )
            assert page["total_estimated"] == count, offset


EMPTY = {"results": [], "has_more": False, "next_offset": None, "total_estimated": 0}


@proves("C3-02")
@pytest.mark.every_state
def test_a_search_whose_filters_match_nothing_returns_an_empty_list(collection: Library) -> None:
    filters = {"notes": {"keywords": ["zeppelin"]}}
    page = search_page(collection, "lighthouse", sources=["notes"], filters=filters)
    assert page == EMPTY | {"note": "No note has the tag “zeppelin”. Tags: Sea, work."}
    page = search_page(collection, '"lighthouse zeppelin" NOT keeper')
    assert page == EMPTY | {"note": "Nothing mentions “lighthouse zeppelin”."}


@proves("C3-02")
@pytest.mark.every_state
@pytest.mark.parametrize("query", ["zeppelin", "xqzvw", "invoice accounting"])
def test_a_search_without_matches_returns_an_empty_list(collection: Library, query: str) -> None:
    page = search_page(collection, query)
    assert {name: page[name] for name in EMPTY} == EMPTY


@proves("C3-03", "C3-15")
def test_an_item_has_meta_content_and_attachments(collection: Library) -> None:
    answer = get(collection, "notes", "Coast", query="page33", snippet_length=60)
    assert answer.keys() == {"meta", "content", "attachments"}
    assert answer["meta"].keys() == FIELDS
    assert answer["content"] == answer["meta"]["snippet"]
    assert "page33" in answer["content"]
    assert len(answer["content"]) <= 60


@proves("C3-04")
@pytest.mark.every_state
def test_a_uri_names_the_source_and_the_item(collection: Library) -> None:
    results = search(collection, "lighthouse")
    assert {r["uri"] for r in results} >= {
        "notes://Coast",
        "notes://Bread",
        "media://paper.pdf",
        "media://talk.mp4",
        "characters://Ada",
        "prompts://Keeper",
        "chats://chat#chat%3A0",
        "chats://titled",
    }
    for result in results:
        message = f"#{quote(result['message_id'], safe='')}" if result["message_id"] else ""
        assert result["uri"] == f"{result['source']}://{result['id']}{message}"


@proves("C3-05", "C3-06")
@pytest.mark.every_state
def test_scores_differ_and_can_be_compared_across_sources(collection: Library) -> None:
    save(
        collection,
        note("Optics", "The optics of the lighthouse, in full.", "Optics of the lighthouse"),
    )
    results = search(collection, "optics of the lighthouse")
    scores = [r["score"] for r in results]
    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 4
    # Items that contain the whole query come first, whatever their source.
    assert {r["id"] for r in results[:2]} == {"Optics", "paper.pdf"}
    weak = {r["source"]: r["score"] for r in results if r["id"] in ("Keeper", "Ada", "chat")}
    assert max(weak.values()) < scores[1]
    assert uris(collection, "optics of the lighthouse") == [r["uri"] for r in results]


@proves("C3-07", "C3-08")
@pytest.mark.every_state
@pytest.mark.parametrize("length", [50, None, 1_000])
def test_a_snippet_surrounds_the_match_and_keeps_its_length(
    collection: Library, length: int | None
) -> None:
    texts = {
        "Long": "Nothing  here.\n\t" * 4_000
        + "Then\n\n  <b>the narwhal</b> sang. "
        + "Nothing here. " * 900,
        "Sea keeper": "Nothing here. " * 90 + "Only then the narwhal. " + "Nothing. " * 90,
        "deep": "word " * 3_000 + "here is a narwhal " + "x " * 900,
    }
    save(collection, note("Long", texts["Long"]))
    save(collection, prompt("Sea keeper", details=texts["Sea keeper"]))
    collection.add_conversation("deep", messages=[{"role": "user", "content": texts["deep"]}])
    options = {} if length is None else {"snippet_length": length}
    results = search(collection, "narwhal", sources=["notes", "prompts", "chats"], **options)
    for result in results:
        assert len(result["snippet"]) <= (length or 300)
        assert re.search(r"\s\s|\n|\t", result["snippet"]) is None
    assert {r["id"] for r in results[:3]} == texts.keys()
    for result in results[:3]:
        snippet = result["snippet"]
        assert len(snippet) > (length or 300) // 2
        assert snippet.strip("…") in " ".join(texts[result["id"]].split())
        before, _, after = snippet.strip("…").partition("narwhal")
        assert before.strip()
        assert after.strip()


@proves("C3-09")
@pytest.mark.every_state
def test_a_conversation_found_by_its_title_shows_title_and_first_message(
    collection: Library,
) -> None:
    by_title = {"filters": {"chats": {"by": "title"}}}
    for options in ({}, {"snippet_length": 50}, by_title):
        result = only_of(collection, "titled", **options)
        assert result["snippet"] == "The lighthouse plan – Hello, where do we begin?"
        assert result["title"] == "The lighthouse plan"
        assert result["uri"] == "chats://titled"
        assert (result["message_id"], result["sender"]) == (None, None)
        assert result["loc"] == {"conversation_id": "titled"}


@proves("C3-09", "C3-35")
@pytest.mark.every_state
@pytest.mark.every_store
def test_a_conversation_without_messages_is_found_by_its_title(collection: Library) -> None:
    for n in range(3):
        collection.add_conversation(f"empty{n}", f"Zeppelin lighthouse {n}", messages=[])
    assert uris(collection, "zeppelin") == [f"chats://empty{n}" for n in (2, 1, 0)]
    assert len(uris(collection, "title:zeppelin", sources=["chats"])) == 3
    by_message = {"chats": {"by": "message"}}
    assert uris(collection, "zeppelin", filters=by_message) == []
    assert uris(collection, "zeppelin", sources=["notes"]) == []
    assert uris(collection, "zeppelin NOT lighthouse") == []
    everything = search(collection, "lighthouse", limit=100)
    pages = [search_page(collection, "lighthouse", limit=4, offset=n) for n in range(0, 16, 4)]
    assert [r for page in pages for r in page["results"]] == everything
    assert {page["total_estimated"] for page in pages} == {len(everything)}
    assert [r["score"] for r in everything] == sorted(
        (r["score"] for r in everything), reverse=True
    )
    last = everything[-1]
    assert (last["snippet"], last["loc"]) == (
        "Zeppelin lighthouse 0",
        {"conversation_id": "empty0"},
    )
    assert last.keys() == FIELDS
    assert get(collection, "chats", "empty0", loc=last["loc"])["content"] == ""


@proves("C3-09")
@pytest.mark.every_state
@pytest.mark.every_store
def test_a_search_for_titles_alone_finds_each_conversation_once(collection: Library) -> None:
    page = search_page(collection, "title:lighthouse", sources=["chats"])
    (result,) = page["results"]
    assert result["snippet"] == "The lighthouse plan – Hello, where do we begin?"
    assert (result["uri"], result["loc"]) == ("chats://titled", {"conversation_id": "titled"})
    assert page["total_estimated"] == 1
    messages = [{"role": "user", "content": text} for text in ("Good morning.", "Goodbye.")]
    collection.add_conversation("more", "The lighthouse, again", messages=messages)
    both = search(collection, "title:lighthouse", sources=["chats"])
    assert {r["id"]: r["snippet"] for r in both} == {
        "titled": "The lighthouse plan – Hello, where do we begin?",
        "more": "The lighthouse, again – Good morning.",
    }


@proves("C3-09")
@pytest.mark.every_state
def test_reading_a_conversation_found_by_its_title_starts_at_its_beginning(
    collection: Library,
) -> None:
    loc = only_of(collection, "titled")["loc"]
    answer = get(collection, "chats", "titled", loc=loc)
    assert answer["content"] == "Hello, where do we begin?"
    assert answer["meta"]["loc"] == loc
    assert "note" not in answer


@proves("C3-09")
@pytest.mark.every_state
def test_a_first_message_with_the_words_of_its_title_is_shown_itself(collection: Library) -> None:
    messages = [{"role": "user", "content": "The lighthouse opens at nine.", "author": "Kim"}]
    collection.add_conversation("both", "Lighthouse visits", messages=messages)
    both = only_of(collection, "both")
    assert both["snippet"] == "The lighthouse opens at nine."
    assert (both["message_id"], both["sender"]) == ("both:0", "Kim")
    assert both["loc"]["message_id"] == "both:0"


def only_of(library: Library, item_id: str, **options: Any) -> dict[str, Any]:
    """The only chat result of this conversation."""
    results = search(library, "lighthouse", sources=["chats"], **options)
    (result,) = [r for r in results if r["id"] == item_id]
    return result


@proves("C3-10")
@pytest.mark.every_state
def test_results_have_times_versions_and_tags(collection: Library) -> None:
    def coast_note() -> dict[str, Any]:
        results = search(collection, "lighthouse", sources=["notes"])
        (result,) = [r for r in results if r["id"] == "Coast"]
        return result

    coast = coast_note()
    assert coast["tags"] == ["Sea", "work"]
    assert coast["created_at"] == coast["last_modified"] == "2026-03-01T12:00:00+00:00"
    assert coast["version"] == 1
    text = {"content": "The lighthouse is gone."}
    assert collection.knowledge.edit("notes", "Coast", text, version=1).version == 2
    with pytest.raises(Conflict, match="now version 2, not 1"):
        collection.knowledge.edit("notes", "Coast", {"content": "No, it is not."}, version=1)
    coast = coast_note()
    assert coast["version"] == 2
    assert coast["last_modified"] > coast["created_at"]


@proves("C3-10")
@pytest.mark.every_state
def test_text_that_an_edit_removed_is_not_found(collection: Library) -> None:
    assert uris(collection, "page33 page34")[0] == "notes://Coast"
    collection.knowledge.edit("notes", "Coast", {"content": "The lighthouse is gone."})
    assert search(collection, '"page33"', sources=["notes"]) == []
    assert all("page33" not in r["snippet"] for r in search(collection, "page33"))


# -- searching ----------------------------------------------------------------


@proves("C3-29")
@pytest.mark.every_state
def test_notes_are_filtered_by_keywords(collection: Library) -> None:
    for keyword, expected in (("sea", ["notes://Coast"]), ("nothing", [])):
        filters = {"notes": {"keywords": [keyword]}}
        assert uris(collection, "lighthouse", sources=["notes"], filters=filters) == expected


@proves("C3-29")
@pytest.mark.every_state
@pytest.mark.every_store
def test_notes_and_media_are_found_by_their_keywords(library: Library) -> None:
    create = library.knowledge.create
    text = {"content": "Water twice a week. " * 300}
    note_id = create("notes", {"title": "Beds", "keywords": ["xylophone", "Blue Whale"], **text}).id
    media_id = create("media", {"title": "Paper", "keywords": ["xylophone"], **text}).id
    create("notes", {"title": "Other", "content": "Nothing of note."})
    page = search_page(library, "xylophone")
    assert {r["id"] for r in page["results"]} == {note_id, media_id}
    assert page["total_estimated"] == 2
    assert "note" not in page
    for result in page["results"]:
        assert "xylophone" in result["tags"]
        assert result["snippet"].startswith("Water twice a week.")
    for query in ('"blue whale"', "xylophone AND whale", "whale beds", "whal*", "whale NOT paper"):
        assert uris(library, query)[0] == f"notes://{note_id}", query
    assert uris(library, '"xylophone" NOT whale') == [f"media://{media_id}"]
    assert uris(library, "title:xylophone") == []


@proves("C3-30")
@pytest.mark.every_state
def test_media_are_filtered_by_type_and_date(collection: Library) -> None:
    def media_uris(**filters: Any) -> set[str]:
        return set(uris(collection, "lighthouse", sources=["media"], filters={"media": filters}))

    assert media_uris() == {"media://paper.pdf", "media://talk.mp4"}
    assert media_uris(media_types=["PDF"]) == {"media://paper.pdf"}
    assert media_uris(media_types=["pdf", "video"]) == media_uris()
    assert media_uris(media_types=["epub"]) == set()
    assert media_uris(date_from="2026-03-01") == {"media://talk.mp4"}
    assert media_uris(date_to="2026-02-22") == {"media://paper.pdf"}
    assert media_uris(date_to="2026-02-21") == set()
    with pytest.raises(InvalidInput, match="date_from"):
        media_uris(date_from="yesterday-ish")
    assert dict(collection.knowledge.media_types()) == {"pdf": 1, "video": 1}


@proves("C3-30")
@pytest.mark.every_state
def test_media_can_have_an_order_of_their_own(library: Library) -> None:
    filler = "Other animals live here as well. " * 5
    texts = [f"A walrus. {filler * (3 - n)} Some seals." for n in range(3)] + ["Walrus seals."]
    save(library, *(media(f"m{n}", text, days=n) for n, text in enumerate(texts)))
    save(library, *(note(f"n{n}", text, days=n) for n, text in enumerate(texts)))

    def order(**options: Any) -> list[str]:
        return [r["id"] for r in search(library, "walrus seals", **options)]

    ranking, newest_first = order(), ["m0", "m1", "m2", "m3"]
    assert [id_ for id_ in ranking if id_ in newest_first] != newest_first
    by_time = {"filters": {"media": {"order_by": "recent"}}}
    assert order(sources=["media"], **by_time) == newest_first
    # In a mixed list the media change places with each other only.
    mixed = order(**by_time)
    assert [id_ for id_ in mixed if id_ in newest_first] == newest_first
    assert [id_[0] for id_ in mixed] == [id_[0] for id_ in ranking]
    assert [id_ for id_ in mixed if id_[0] == "n"] == [id_ for id_ in ranking if id_[0] == "n"]
    pages = [search_page(library, "walrus seals", limit=3, offset=n, **by_time) for n in (0, 3, 6)]
    assert [r["id"] for page in pages for r in page["results"]] == mixed
    assert {page["total_estimated"] for page in pages} == {8}
    by_relevance = {"filters": {"media": {"order_by": "relevance"}}}
    timeline = order(order_by="recent", **by_relevance)
    assert [id_ for id_ in timeline if id_[0] == "n"] == ["n0", "n1", "n2", "n3"]
    assert [id_ for id_ in timeline if id_[0] == "m"] == [id_ for id_ in ranking if id_[0] == "m"]
    with pytest.raises(InvalidInput, match=r"filters\.media\.order_by: 'colour' is not one of"):
        order(filters={"media": {"order_by": "colour"}})


@proves("C3-31")
@pytest.mark.every_state
def test_chats_are_searched_by_title_by_message_or_by_both(collection: Library) -> None:
    def chats(**filters: Any) -> list[dict[str, Any]]:
        return search(collection, "lighthouse", sources=["chats"], filters={"chats": filters})

    assert [r["uri"] for r in chats(by="title")] == ["chats://titled"]
    by_message = chats(by="message")
    assert by_message[0]["uri"] == "chats://chat#chat%3A0"
    assert all(r["message_id"] is not None for r in by_message)
    assert "titled" not in {r["id"] for r in by_message}
    both = [r["uri"] for r in chats(by="both")]
    assert both == [r["uri"] for r in chats()]
    assert {"chats://titled", "chats://chat#chat%3A0"} <= set(both)
    with pytest.raises(InvalidInput, match="by"):
        chats(by="author")


@proves("C3-31")
@pytest.mark.every_state
def test_sender_and_character_filter_chats_before_any_limit(collection: Library) -> None:
    for n in range(130):
        message = {"role": "user", "content": "the lighthouse again", "author": "Lee"}
        metadata = {"character_id": 5 if n % 2 else 6}
        collection.add_conversation(
            f"other-{n}", f"Chat {n}", metadata=metadata, messages=[message]
        )

    def page(limit: int = 100, **filters: Any) -> dict[str, Any]:
        options = {"sources": ["chats"], "filters": {"chats": filters}}
        return search_page(collection, "lighthouse", limit=limit, **options)

    (first,) = page(1, sender="kim")["results"]
    assert first["uri"] == "chats://chat#chat%3A0"
    assert {r["sender"] for r in page(sender="KIM")["results"]} == {"Kim"}
    by_lee = page(sender="Lee")
    assert {r["sender"] for r in by_lee["results"]} == {"Lee"}
    assert (len(by_lee["results"]), by_lee["total_estimated"]) == (100, 130)
    for character_id, odd in ((5, 1), ("5", 1), (6, 0)):
        results = page(character_id=character_id)["results"]
        assert {r["id"] for r in results} == {f"other-{n}" for n in range(odd, 130, 2)}
    note = "No message is by an author named “nobody”. Authors: Kim, Lee."
    assert page(sender="nobody") == EMPTY | {"note": note}
    assert page(character_id=7) == EMPTY
    assert page(sender="Lee", character_id=7) == EMPTY
    assert page(character_id=5, by="title") == EMPTY


FIELD_WORDS = {
    "name": "Gatekeeper",
    "details": "raindrop",
    "system_prompt": "telescope",
    "user_prompt": "hammock",
    "author": "Montgomery",
    "keywords": "marzipan",
}


def prompts(library: Library, query: str, *fields: str) -> list[dict[str, Any]]:
    filters = {}
    if fields:
        filters["prompts"] = {"fields": list(fields)}
    return search(library, query, sources=["prompts"], filters=filters)


@proves("C3-32")
@pytest.mark.every_state
@pytest.mark.parametrize("field", few(FIELD_WORDS))
def test_prompts_are_searched_in_the_selected_fields(library: Library, field: str) -> None:
    texts = {name: f"Here is a {word}." for name, word in FIELD_WORDS.items() if name != "name"}
    save(library, prompt("Gatekeeper", **texts), prompt("Other", details="Nothing to see."))
    word = FIELD_WORDS[field]
    for fields in ([field], [field, "details"], [*FIELD_WORDS], []):
        best = prompts(library, word, *fields)[0]
        assert (best["uri"], best["loc"]["field"]) == ("prompts://Gatekeeper", field)
    others = [name for name in FIELD_WORDS if name != field]
    assert {r["loc"]["field"] for r in prompts(library, word, *others)} <= set(others)
    with pytest.raises(InvalidInput, match="fields"):
        prompts(library, word, "colour")


@proves("C3-32")
@pytest.mark.every_state
def test_a_word_of_another_field_is_not_found(library: Library) -> None:
    texts = {name: f"Here is a {word}." for name, word in FIELD_WORDS.items() if name != "name"}
    save(library, prompt("Gatekeeper", **texts))
    for field, word in FIELD_WORDS.items():
        assert prompts(library, word, *(name for name in FIELD_WORDS if name != field)) == []


@proves("C3-32")
@pytest.mark.every_state
def test_characters_are_found_by_text_or_tags(collection: Library) -> None:
    save(collection, character("Bob", description="He bakes bread.", tags="baker, cheerful"))
    for query, names in {
        "sailor": ["Ada"],
        "sailor, pirate": ["Ada"],
        "calm,cheerful": ["Ada", "Bob"],
        "lives by the sea": ["Ada"],
        "bakes": ["Bob"],
    }.items():
        results = search(collection, query, sources=["characters"])
        assert sorted(r["id"] for r in results[: len(names)]) == names, query


@proves("C3-33")
@pytest.mark.every_state
def test_all_sources_are_searched_unless_some_are_named(collection: Library) -> None:
    results = search(collection, "lighthouse", sources=["notes", "media"])
    assert {r["source"] for r in results} == {"notes", "media"}
    with pytest.raises(InvalidInput, match="source"):
        search(collection, "lighthouse", sources=["films"])
    with pytest.raises(InvalidInput, match=r"filters\.notes"):
        search(collection, "lighthouse", filters={"notes": {"colour": "red"}})
    with pytest.raises(InvalidInput, match="filters"):
        search(collection, "lighthouse", filters={"films": {}})
    filters = {"notes": {"keywords": ["work"]}, "media": {"media_types": ["pdf"]}}
    results = search(collection, "lighthouse", filters=filters)
    ids = {r["id"] for r in results if r["source"] in ("notes", "media")}
    assert ids == {"Coast", "paper.pdf"}
    assert {r["source"] for r in results} == {"notes", "media", "chats", "characters", "prompts"}


@proves("C3-34")
@pytest.mark.parametrize("count", [12, 50])
def test_recent_shows_the_best_passage_of_every_item(library: Library, count: int) -> None:
    text = "A walrus narwhal. " * 40 + "Nothing here. " * 80 + "A walrus and never a narwhal."
    save(library, *(note(f"n{n}", text, days=n) for n in range(count)))
    best = {r["id"]: r for r in search(library, "walrus narwhal", limit=100)}
    recent = search(library, "walrus narwhal", limit=100, order_by="recent")
    assert [r["id"] for r in recent] == [f"n{n}" for n in range(count)]
    assert {r["loc"]["chunk_index"] for r in recent} == {0}
    if count == 12:  # all are ranked
        assert [r["score"] for r in recent] == [best[r["id"]]["score"] for r in recent]


@proves("C3-34")
@pytest.mark.every_state
def test_recent_sorts_by_time_with_undated_items_last(collection: Library) -> None:
    results = search(collection, "lighthouse", order_by="recent")
    dates = [r["last_modified"] for r in results]
    dated = [date for date in dates if date is not None]
    undated = [date for date in dates if date is None]
    assert dates == sorted(dated, reverse=True) + undated
    assert {r["source"] for r in results if r["last_modified"] is None} == {"characters", "prompts"}
    assert results[0]["id"] in ("chat", "talk.mp4")
    assert len(results) == 8
    with pytest.raises(InvalidInput, match="order_by"):
        search(collection, "lighthouse", order_by="colour")


@proves("C3-34")
@pytest.mark.every_store
def test_recent_also_sorts_what_was_found_by_meaning(library: Library) -> None:
    texts = ("The doctor prescribed antibiotics.", "Pasta for dinner.", "The physician was kind.")
    save(library, *(note(f"n{n}", text, days=n) for n, text in enumerate(texts)))
    library.index()

    def ids(query: str, **options: Any) -> list[str]:
        return [result["id"] for result in search(library, query, **options)]

    assert ids("physician", mode="vector") == ["n2", "n0"]
    assert ids("physician", mode="vector", order_by="recent") == ["n0", "n2"]
    # Without a word of the query, results by meaning are all there is.
    query = "medical treatment for illness"
    assert sorted(ids(query, order_by="recent")) == sorted(ids(query)) != []
    assert search_page(library, query, order_by="recent")["total_estimated"] == len(ids(query))
    assert ids("physician", order_by="recent") == ["n2"]


@proves("C3-35")
@pytest.mark.every_state
@pytest.mark.parametrize("order", ["relevance", "recent"])
def test_paging_returns_every_result_of_every_source_once(library: Library, order: str) -> None:
    save(
        library,
        *(note(f"n{n}", f"The walrus of note {n}. " * (1 + n % 3), days=n) for n in range(160)),
    )
    save(library, *(media(f"m{n}", f"A walrus in paper {n}.", days=n) for n in range(40)))
    save(library, *(prompt(f"p{n}", details=f"Ask the walrus {n}.") for n in range(20)))
    library.add_conversation(
        "c",
        messages=[
            {"role": "user", "content": f"walrus {n} in a chat", "created_at": NOW}
            for n in range(170)
        ],
    )
    settle(library)
    all_uris: list[str] = []
    sources: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = search_page(library, "walrus", limit=97, offset=offset, order_by=order)
        assert len(page["results"]) == (97 if page["has_more"] else len(page["results"]))
        all_uris += [r["uri"] for r in page["results"]]
        sources += [r["source"] for r in page["results"]]
        offset = page["next_offset"]
    assert len(all_uris) == len(set(all_uris)) == 160 + 40 + 20 + 170
    assert page["total_estimated"] == len(all_uris)
    assert {"notes", "media", "prompts", "chats"} == set(sources)
    assert len(set(sources[250:])) > 1


@proves("C3-36")
@pytest.mark.every_state
def test_limits_are_clamped_and_queries_bounded(library: Library) -> None:
    save(library, *(note(f"n{n}", f"Lighthouse number {n}.") for n in range(105)))
    everything = uris(library, "lighthouse", limit=100)
    assert len(everything) == 100
    assert uris(library, "lighthouse", limit=10_000, offset=-3) == everything
    for limit in (1, 0, -5):
        assert uris(library, "lighthouse", limit=limit) == everything[:1]
    assert len(uris(library, "lighthouse", limit=100, offset=100)) == 5
    assert len(search(library, "lighthouse " * 60)) == 20
    assert search_page(library, "x" * 1_000).keys() >= EMPTY.keys()
    for query in ("", "  ", "x" * 1_001):
        with pytest.raises(InvalidInput, match="query"):
            search_page(library, query)


def session_pages(
    library: Library, session: Session, query: str, limit: int
) -> Iterator[list[str]]:
    """The results of the same search in a session, again and again."""
    while True:
        yield uris(library, query, limit=limit, history=session)


@proves("C3-37")
@pytest.mark.every_state
def test_a_session_returns_each_result_once_and_then_starts_again(collection: Library) -> None:
    everything = uris(collection, "lighthouse", limit=100)
    pages = session_pages(collection, Session(), "lighthouse", 3)
    for _ in range(2):
        results: list[str] = []
        while len(results) < len(everything):
            page = next(pages)
            assert len(page) == min(3, len(everything) - len(results))
            results += page
        assert results == everything


@proves("C3-37")
@pytest.mark.every_state
def test_page_two_of_a_session_has_the_next_results(collection: Library) -> None:
    everything = uris(collection, "lighthouse", limit=100)
    session = Session()
    page = search_page(collection, "lighthouse", limit=3, history=session)
    assert [r["uri"] for r in page["results"]] == everything[:3]
    second = uris(collection, "lighthouse", limit=3, offset=page["next_offset"], history=session)
    assert second == everything[3:6]
    other = uris(collection, "foghorn", history=session)
    assert other[0] == "chats://chat#chat%3A2"
    assert not {*everything[:6]} & {*other}, "results of another query are not repeated either"
    assert uris(collection, "lighthouse", limit=100, history=Session()) == everything


@proves("C3-38")
def test_chunks_are_whole_sentences_with_stable_ids(collection: Library) -> None:
    before = collection._store.document("Coast")
    text = "".join(p.content for p in before.passages)
    assert text == COAST
    assert all(text[p.metadata["start"] : p.metadata["end"]] == p.content for p in before.passages)
    assert all(p.content.rstrip().endswith(".") for p in before.passages)
    collection.knowledge.edit("notes", "Coast", {"content": text + "One more sentence."})
    after = collection._store.document("Coast")
    unchanged = len(before.passages) - 1
    ids = [passage.id for passage in before.passages[:unchanged]]
    assert [passage.id for passage in after.passages[:unchanged]] == ids


@proves("C3-39")
@pytest.mark.every_state
def test_users_never_see_each_others_items(collection: Library, place: str) -> None:
    with recollect.open(place, "somebody-else") as other:
        assert other.knowledge.search("lighthouse")["total_estimated"] == 0
        for source, item_id in ITEMS:
            with pytest.raises(NotFound):
                other.knowledge.get(source, item_id)
            with pytest.raises(NotFound):
                other.knowledge.delete(source, item_id)
        assert other.knowledge.media_types() == []
