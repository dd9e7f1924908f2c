"""A pasted text that is too long for a query is searched by its most distinctive words."""

from __future__ import annotations

import base64
import json
import random

import pytest
from selection import few

import recollect
from recollect import Filter, SearchOptions
from recollect.errors import InvalidInput

QUERY_BYTES = 1_024
"""Longer queries are reduced to their most distinctive words."""
FRAMES = """
  File "/srv/app-{n}/venv/lib/python3.11/site-packages/uvicorn/http.py", line 4{n}2, in run
    result = await app(self.scope, self.receive, self.send)
  File "/srv/app-{n}/shop/checkout/payment_gateway.py", line 11{n}, in charge_customer
    response = await session.post(url, json=payload, timeout=ClientTimeout(total={n}))
  File "/srv/app-{n}/venv/lib/python3.11/site-packages/starlette/routing.py", line 7{n}6, in handle
    await self.middleware_stack(scope, receive, send)
"""


def trace(n: int) -> str:
    """A stack trace. Its addresses and line numbers are different each time."""
    return (
        "Traceback (most recent call last):"
        + FRAMES.format(n=n) * 3
        + f'NOT (really) "an operator role:user before:never -minus\nobject at 0x7f3a{n}c0ffee\n'
        f"GatewayHandshakeError: the acquirer rejected the charge (ERR_CARD_{n}21)"
    )


@pytest.fixture
def shop(library: recollect.Library) -> recollect.Library:
    for number in range(30):
        library.add_conversation(
            f"other-{number}",
            "Python",
            messages=[
                {
                    "role": "user",
                    "content": f"The file at line {number} cannot await the app response: what "
                    "result does the session post, and which timeout has the middleware stack?",
                }
            ],
        )
    library.add_conversation(
        "known",
        "Checkout",
        messages=[
            {"id": "trace", "role": "user", "content": trace(1)},
            {"id": "answer", "role": "assistant", "content": "The acquirer rejects test cards."},
        ],
    )
    library.index()
    return library


@pytest.mark.parametrize("mode", ["text", "both"])
def test_a_pasted_stack_trace_finds_the_same_error(shop: recollect.Library, mode: str) -> None:
    text = trace(2)
    assert len(text) > QUERY_BYTES
    page = shop.search(text, options=SearchOptions(mode=mode))
    assert page.hits[0].message_id == "trace"
    assert page.note.startswith("The query is long. Searched for its 24 most distinctive words: ")
    assert "payment_gateway.py" in page.note and page.note.endswith(" and 16 more.")
    for frequent_or_absent in ("await", "0x7f3a2c0ffee", "ERR_CARD_221"):
        assert frequent_or_absent not in page.note


def test_filters_and_pages_apply_to_a_long_query(shop: recollect.Library) -> None:
    page = shop.search(trace(2), Filter(conversations=("other-7",)))
    assert {hit.conversation_id for hit in page.hits} <= {"other-7"}
    page = shop.search(trace(2), Filter(roles=("assistant",)), SearchOptions(mode="text"))
    assert [hit.message_id for hit in page.hits] == ["answer"]
    pages = [
        shop.search(trace(2), options=SearchOptions(mode="text", limit=1, offset=n))
        for n in range(3)
    ]
    assert [hit.message_id for hit in pages[0].hits] == ["trace"]
    ids = [(hit.conversation_id, hit.message_id) for page in pages for hit in page.hits]
    assert len(set(ids)) == len(ids)
    assert {page.note for page in pages} == {pages[0].note}


def test_a_query_of_many_short_words_is_long_as_well(shop: recollect.Library) -> None:
    text = "so it is what we do now and then " * 10 + "acquirer"
    assert len(text) < QUERY_BYTES
    page = shop.search(text, options=SearchOptions(mode="text"))
    assert {hit.conversation_id for hit in page.hits} == {"known"}
    assert page.note.startswith("The query is long. Searched for its most distinctive word: acqui")


def test_a_long_text_in_a_script_without_spaces_is_found(library: recollect.Library) -> None:
    text = "今日は良い天気ですから公園へ散歩に行きました。" * 20
    library.add_conversation("a", messages=[{"role": "user", "content": "東京の灯台は古い"}])
    library.add_conversation("b", messages=[{"role": "user", "content": "天気の話"}])
    page = library.search(f"{text}灯台{text}", options=SearchOptions(mode="text"))
    assert {hit.conversation_id for hit in page.hits} == {"a", "b"}


def test_a_long_text_of_unknown_words_finds_nothing_and_says_so(shop: recollect.Library) -> None:
    page = shop.search("Quokka wombat " * 100, options=SearchOptions(mode="text"))
    assert not page.hits
    assert "Searched for its 2 most distinctive words: quokka, wombat." in page.note
    assert "No message mentions" in page.note


def encoded_data(size: int) -> str:
    return base64.b64encode(random.Random(3).randbytes(size)).decode()


def in_lines(text: str) -> str:
    return "\n".join(text[start : start + 76] for start in range(0, len(text), 76))


@pytest.mark.parametrize(
    "data",
    few(
        [
            encoded_data(1_500),
            encoded_data(30_000),
            encoded_data(200_000),
            in_lines(encoded_data(20_000)),
            random.Random(3).randbytes(900).hex(),
            " ".join(f"req_{number:x}A{number}" for number in range(700)),
            json.dumps({f"key{number}": number for number in range(200)}, separators=(",", ":")),
        ]
    ),
    ids=["data", "long data", "huge data", "lines", "hex", "ids", "minified JSON"],
)
def test_the_words_around_pasted_data_are_searched(shop: recollect.Library, data: str) -> None:
    for text in (f"the acquirer\n{data}", f"{data} acquirer", f"the {data}\nacquirer {data}"):
        page = shop.search(text, options=SearchOptions(mode="text"))
        assert {hit.conversation_id for hit in page.hits} == {"known"}
        assert "acquirer" in page.note


@pytest.mark.both_stores
@pytest.mark.parametrize(
    "word",
    [random.Random(4).randbytes(900).hex(), "x" * 70_000, encoded_data(3_000)],
    ids=["hex", "letters", "data"],
)
def test_a_single_long_word_is_found_by_its_beginning(
    library: recollect.Library, word: str
) -> None:
    library.add_conversation("other", messages=[{"role": "user", "content": "nothing"}])
    for mode in ("text", "both"):
        page = library.search(word, options=SearchOptions(mode=mode))
        assert not page.hits
        assert page.note.startswith("The query is long. Searched for ")
    library.add_conversation("known", messages=[{"role": "user", "content": f"It is {word}."}])
    for mode in ("text", "both"):
        page = library.search(word, options=SearchOptions(mode=mode))
        assert [hit.conversation_id for hit in page.hits] == ["known"]


@pytest.mark.parametrize(
    "text",
    [
        trace(2),
        "今日は良い天気ですから公園へ散歩に行きました。" * 40 + "acquirer",
        "Вчера мы обсуждали схему базы данных. " * 20 + "acquirer",
    ],
    ids=["stack trace", "Japanese", "Russian"],
)
def test_items_and_memory_are_searched_by_long_texts(shop: recollect.Library, text: str) -> None:
    results = shop.knowledge.search(text, mode="text")["results"]
    assert results[0]["id"] == "known"
    for mode in ("text", "both"):
        assert shop.memory.search(text, mode=mode).hits[0].title == "Checkout"
    hits = shop.memory.search([text, "acquirer"]).hits
    assert [hit.title for hit in hits] == ["Checkout"]


@pytest.mark.parametrize(
    "text",
    ["x " * (33_000), "!" * 2_000, "in:" + "a," * 70 + "a"],
    ids=["absurd", "without words", "fields"],
)
def test_what_cannot_be_reduced_is_an_error(library: recollect.Library, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"The maximum is|more than 64 words"):
        library.search(text)


def test_long_texts_and_expressions_are_searched(library: recollect.Library) -> None:
    text = " ".join(f"word{n}" for n in range(300))
    message = {"role": "user", "content": f"before {text} after"}
    library.add_conversation("long", messages=[message])
    assert len(text.encode()) > 2_000
    assert library.find_text(text).total == 1
    assert [c.conversation_id for c in library.recent(text)] == ["long"]
    assert [c.conversation_id for c in library.recent(f"after {text}")] == ["long"]
    for expression in (text, text.replace(" ", " OR "), f'"{text}"'):
        assert library.match_expression(expression).total == 1
    assert library.match_expression(f"{text} elsewhere").total == 0


def test_the_error_of_a_very_deep_stack_is_searched_for(library: recollect.Library) -> None:
    frames = [
        f'  File "/srv/app/module_{n}.py", line {n}, in handler_{n}\n    raise E("ERR_AUTH_LOST")'
        for n in range(400)
    ]
    for number in range(100, 120):
        message = {"role": "user", "content": f"The invoice is {number}.00 EUR."}
        library.add_conversation(f"invoice-{number}", messages=[message])
    message = {"role": "user", "content": "Why does it say ERR_AUTH_LOST after the update?"}
    library.add_conversation("answer", messages=[message])
    assert library.search("\n".join(frames)).hits[0].conversation_id == "answer"
