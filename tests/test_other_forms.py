"""Numbers and names that messages have in other forms than the query."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect

TEXTS = {
    "plumber": "The plumber Ken: 0161 496 0723.",
    "dentist": "Zahnarzt 09131 55 67 82, bitte anrufen.",
    "arun": "Arun has a new number, 07700900999.",
    "zoe": "The babysitter Zoe is at 07700 900461.",
    "iban": "Transfer it to DE89 3704 0044 0532 0130 00.",
    "hotline": "The hotline is +1 (415) 555-0132.",
    "book": "I ordered ISBN 978-3-16-148410-0 for her.",
    "ramipril": "Take Ramipril 2,5 mg at 10:30 am.",
    "parser": "See src/parser/frame.rs line 112.",
    "vite": "localhost:5173 refuses the connection.",
    "orm": "We upgrade SQLAlchemy 1.4.49 to 2.0.25.",
    "commit": "Fixed in commit 9f3c2e1.",
    "user": "getUserById(id) returns the old name.",
    "session": "`session.get(User, 5)` replaces query.get.",
    "next": "Next.js renders it on the server, and Socket.io sends it.",
    "tls": "rustls-tls made the image small.",
    "no": "There is no way, no.",
}


@pytest.fixture
def notes(library: recollect.Library) -> recollect.Library:
    return add_texts(library, TEXTS)


def hits(library: recollect.Library, query: str) -> list[str]:
    return [hit.conversation_id for hit in library.search(query).hits]


@pytest.mark.both_stores
def test_a_long_number_is_found_in_any_groups(notes: recollect.Library) -> None:
    queries = {
        "01614960723": "plumber",
        "0161 4960723": "plumber",
        "09131556782": "dentist",
        "07700 900999": "arun",
        "07700900461": "zoe",
        "DE89370400440532013000": "iban",
        "DE89 3704 0044 0532 0130 00": "iban",
        "14155550132": "hotline",
        "1-415-555-0132": "hotline",
        "9783161484100": "book",
        "978-3161484100": "book",
    }
    for query, name in queries.items():
        assert hits(notes, query)[:1] == [name], query


def test_a_number_that_can_be_split_in_very_many_ways_is_searched_at_once(
    notes: recollect.Library,
) -> None:
    add_texts(notes, {"ones": " ".join("1" * size for size in range(2, 9))})
    assert hits(notes, "1" * 30 + "7777") == []


def test_a_path_can_have_very_many_parts(notes: recollect.Library) -> None:
    assert hits(notes, "/".join(["a"] * 100) + "/src/parser/frame.rs") == ["parser"]


@pytest.mark.both_stores
def test_other_digits_are_another_number(notes: recollect.Library) -> None:
    for query in ("01614960724", "0161496072", "DE89370400440532013001"):
        assert hits(notes, query) == [], query


def test_an_amount_is_found_with_and_without_a_space(notes: recollect.Library) -> None:
    for query in ("2,5mg", "2.5mg", "10:30am", "2,5 mg"):
        assert hits(notes, query)[:1] == ["ramipril"], query


def test_an_identifier_is_found_by_the_part_that_messages_have(notes: recollect.Library) -> None:
    queries = {
        "/home/me/work/ingest/src/parser/frame.rs": "parser",
        r"C:\work\src\parser\frame.rs": "parser",
        "http://localhost:5173": "vite",
        "SQLAlchemy==2.0.25": "orm",
        "9f3c2e1d5b8a7f6e4c3b2a1908f7e6d5c4b3a291": "commit",
    }
    for query, name in queries.items():
        assert hits(notes, query)[:1] == [name], query


def test_what_only_ends_in_the_same_way_is_not_found(notes: recollect.Library) -> None:
    for query in ("/srv/lib/parser.rs", "https://example.org/frame", "9f3c2e0d5b8a7f6e4c3b"):
        assert hits(notes, query) == [], query


def test_the_beginning_of_a_name_finds_the_name(notes: recollect.Library) -> None:
    assert "user" in hits(notes, "getUser")


def test_a_missing_dot_is_corrected(notes: recollect.Library) -> None:
    for query in ("nextjs", "socketio"):
        assert hits(notes, query) == ["next"], query


def test_the_parts_of_an_identifier_have_no_synonyms(notes: recollect.Library) -> None:
    assert hits(notes, "ERR_SSL_PROTOCOL_ERROR") == []
    assert hits(notes, "ssl") == ["tls"]


def test_an_option_is_found_only_as_a_whole(notes: recollect.Library) -> None:
    assert hits(notes, "--no-ff") == []


def test_a_ligature_is_found_by_its_letters_and_the_reverse(library: recollect.Library) -> None:
    texts = {
        "ligature": "Ma sœur cœliaque a six œufs.",
        "letters": "Deux soeurs au choeur.",
    }
    add_texts(library, texts)
    for query in ("soeur", "sœur", "Où est ma soeur ?"):
        assert sorted(hits(library, query)) == ["letters", "ligature"], query
    for query in ("oeufs", "coeliaque"):
        assert hits(library, query) == ["ligature"], query
    assert hits(library, "chœur") == ["letters"]


@pytest.mark.parametrize(
    ("query", "text", "other_texts"),
    [
        ("Haus", "Die Häuser in dieser Straße sind teuer.", ["Das ist nicht alt und nicht neu."]),
        ("Rechnungen", "Die Rechnung der Werkstatt fehlt.", ["Das ist nicht alt und nicht neu."]),
        ("comprar", "Ayer compré pan y fruta.", ["No es nuevo, pero los zapatos son viejos."]),
        ("chevaux", "Le cheval est malade.", ["Les voisins sont dans le jardin."]),
        ("huis", "De huizen zijn duur.", ["Het is een oude fiets."]),
    ],
)
def test_a_keyword_is_found_in_the_forms_of_the_languages_of_the_library(
    library: recollect.Library, query: str, text: str, other_texts: list[str]
) -> None:
    for number, content in enumerate([text, *other_texts]):
        library.add_conversation(f"{number}", messages=[{"role": "user", "content": content}])
    page = library.search(query)
    assert ([hit.conversation_id for hit in page.hits], page.note) == (["0"], "")
