"""Messages that write in another way what a query says are found: the known items of forms."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from texts import add_texts

import recollect


@dataclass(frozen=True)
class Case:
    """Texts by name, and queries with the names of what they find."""

    texts: dict[str, str]
    first: dict[str, str] = field(default_factory=dict)
    """The first hit of each query."""
    only: dict[str, list[str]] = field(default_factory=dict)
    """All hits of each query, in any order."""
    correct: bool = True


CASES = {
    "numbers": Case(
        {
            "flight": "The flight to Lisbon cost €1,249.50, the hotel $980.",
            "budget": "The budget is 1250000 for this year.",
            "other": "Room 249 has 1 window and 50 chairs.",
        },
        {
            "1249": "flight",
            "1249.50": "flight",
            "how much was the 1249 euro flight": "flight",
            "1,250,000": "budget",
        },
    ),
    "long numbers": Case(
        {
            "plumber": "The plumber Ken: 0161 496 0723.",
            "dentist": "Zahnarzt 09131 55 67 82, bitte anrufen.",
            "arun": "Arun has a new number, 07700900999.",
            "iban": "Transfer it to DE89 3704 0044 0532 0130 00.",
            "hotline": "The hotline is +1 (415) 555-0132.",
            "book": "I ordered ISBN 978-3-16-148410-0 for her.",
            "ones": " ".join("1" * size for size in range(2, 9)),
        },
        {
            "01614960723": "plumber",
            "09131556782": "dentist",
            "07700 900999": "arun",
            "DE89370400440532013000": "iban",
            "14155550132": "hotline",
            "9783161484100": "book",
        },
        {
            "01614960724": [],
            "0161496072": [],
            "DE89370400440532013001": [],
            "1" * 30 + "7777": [],  # can be split in very many ways
        },
    ),
    "versions and amounts": Case(
        {
            "deploy": "The deploy fails since v2.14.0-rc.3, so we changed it back.",
            "parser": "We use nom 7.1.3 instead of pest.",
            "orm": "We upgrade SQLAlchemy 1.4.49 to 2.0.25.",
            "ramipril": "Take Ramipril 2,5 mg at 10:30 am.",
            "bread": "Mix 500 g flour with water.",
            "other": "Version 2 has 14 pages and 0 pictures, of which 3 are large.",
        },
        {
            "2.14.0": "deploy",
            "what changed in 2.14.0-rc.3?": "deploy",
            "v7.1.3": "parser",
            "SQLAlchemy==2.0.25": "orm",
            "2,5mg": "ramipril",
            "10:30am": "ramipril",
            "500g flour": "bread",
        },
        {"750g": []},
    ),
    "names in code": Case(
        {
            "loop": "RuntimeError: the event loop is closed.",
            "snake": "Call get_user_name before the template is rendered.",
            "camel": "The parseConfigFile function reads the settings.",
            "user": "getUserById(id) returns the old name.",
            "abort": "Wrap the request in an AbortController and pass its signal.",
            "pod": "The pod is in CrashLoopBackOff since the upgrade.",
            "hook": "useLayoutEffect runs before the browser paints.",
            "other": "The event was long, the loop short, and the user got a name.",
        },
        {
            "EventLoop": "loop",
            "why is the EventLoop closed?": "loop",
            "getUserName": "snake",
            "parse_config_file": "camel",
            "abort controller": "abort",
            "crash loop back off": "pod",
            "use layout effect": "hook",
            "getUserBy": "user",
        },
    ),
    "codes": Case(
        {
            "headphones": "I bought the WH-1000XM4 headphones.",
            "printer": "The printer HL-L2350DW is offline.",
            "model": "GPT-4o answers faster.",
            "room": "The standup is in room B-204 on Tuesdays.",
            "desk": "My desk is C17, next to the window.",
            "python": "Pin Python 3.12 in the Dockerfile.",
            "others": "The DW has 1000 L and 4 o and a WH: GPT or XYZ?",
        },
        {
            "where did I buy the WH1000XM4?": "headphones",
            "room B204": "room",
            "B204": "room",
            "C-17": "desk",
            "python3.12": "python",
        },
        {
            "wh1000xm4": ["headphones"],
            "WH1000-XM4": ["headphones"],
            "hll2350dw": ["printer"],
            "gpt4o": ["model"],
            "wh1000xm5": [],
            "gpt4": [],
        },
    ),
    "shorter identifiers": Case(
        {
            "parser": "See src/parser/frame.rs line 112.",
            "vite": "localhost:5173 refuses the connection.",
            "commit": "Fixed in commit 9f3c2e1.",
            "trace": 'File "/srv/app/payments/handlers.py", line 214, in charge',
        },
        {},
        {
            "/home/me/work/ingest/src/parser/frame.rs": ["parser"],
            r"C:\work\src\parser\frame.rs": ["parser"],
            "/".join(["a"] * 100) + "/src/parser/frame.rs": ["parser"],
            "http://localhost:5173": ["vite"],
            "9f3c2e1d5b8a7f6e4c3b2a1908f7e6d5c4b3a291": ["commit"],
            "/srv/lib/parser.rs": [],
            "https://example.org/frame": [],
            "9f3c2e0d5b8a7f6e4c3b": [],
            "handlers.py:214": ["trace"],
        },
    ),
    "plurals of acronyms": Case(
        {
            "gpu": "The GPU has 24 GB, and the PDF explains the KPI.",
            "dns": "The DNS server answers by SMS.",
        },
        {},
        {
            **{word: ["gpu"] for word in ("GPUs", "PDFs", "KPIs", "gpu", "pdf", "kpi")},
            **{word: [] for word in ("dn", "sm", "gp")},
        },
    ),
    "English spellings": Case(
        {
            "color": "The color of the Wi-Fi router is gray.",
            "colours": "The colours are grey, and the wifi works.",
            "mail": "I organized an e-mail in the mail room, where a fire is.",
            "emails": "Organising emails takes time.",
            "size": "size four price hor",
        },
        {},
        {
            "colour": ["color", "colours"],
            "what colors are there?": ["color", "colours"],
            "wifi": ["color", "colours"],
            "wi-fi": ["color", "colours"],
            "grey wi-fi": ["color", "colours"],
            "organise": ["mail", "emails"],
            "e-mails": ["mail", "emails"],
            '"colour"': [],  # quotes are exact
            **{word: [] for word in ("sise", "prise", "hour")},
        },
        correct=False,
    ),
    "British and American": Case(
        {"british": "A neighbourhood, centred, in kilometres.", "american": "Traveling, analyzed."},
        {},
        {
            "neighborhoods": ["british"],
            "centered": ["british"],
            "kilometer": ["british"],
            "travelling": ["american"],
            "analysing": ["american"],
        },
        correct=False,
    ),
    "longer words": Case(
        {
            "companion": "Basil is a good companion for tomatoes.",
            "delegate": "She learned to delegate and is on vacation.",
            "service": "The PaymentService retries three times.",
            "invoice": "Das Rechnungsdatum fehlt auf der Rechnung.",
            "vacuum": "Autovacuum ran at night.",
        },
        {},
        {
            "service": ["service"],
            "datum": ["invoice"],  # the other part is a word of the library
            "autovac": ["vacuum"],
            "service quagga": [],
            **{word: [] for word in ("anion", "legate", "cation")},
        },
    ),
    "compounds": Case(
        {
            "insurance": "Die Krankenversicherung ist nicht billig.",
            "dentist": "Der Zahnarzttermin ist am Donnerstag, und nicht am Freitag.",
            "meeting": "Der nächste Termin ist im Rathaus.",
            "gym": "Die Kündigung des Fitnessvertrags ist da.",
            "craftsman": "Die Handwerkerkosten sind hoch.",
            "cooking": "Die Kosten der Küche und die Zulassung sind bekannt.",
        },
        {
            "Termin Zahnarzt": "dentist",
            "Kosten Handwerker": "craftsman",
            "Fitness Vertrag": "gym",
            "Wann war ich beim Zahnarzt?": "dentist",
        },
        {"Versicherung": ["insurance"], "Lassung": []},
    ),
    "words of an English library are not joined in another order": Case(
        {"keys": "The keyboard is new.", "wood": "The board is long."},
        {},
        {"board keyx": ["wood"], "zqboard key": []},
    ),
    "ligatures": Case(
        {"ligature": "Ma sœur cœliaque a six œufs.", "letters": "Deux soeurs au choeur."},
        {},
        {
            "soeur": ["letters", "ligature"],
            "sœur": ["letters", "ligature"],
            "oeufs": ["ligature"],
            "coeliaque": ["ligature"],
        },
    ),
    "languages of the library": Case(
        {
            "house": "Die Häuser in dieser Straße sind teuer, und das ist nicht neu.",
            "bread": "Ayer compré pan y fruta, pero los zapatos son viejos.",
            "horse": "Le cheval est malade, et les voisins sont dans le jardin.",
        },
        {},
        {"Haus": ["house"], "comprar": ["bread"], "chevaux": ["horse"]},
    ),
    "missing dots": Case(
        {"next": "Next.js renders it on the server, and Socket.io sends it."},
        {},
        {"nextjs": ["next"], "socketio": ["next"]},
    ),
    "identifiers are exact": Case(
        {
            "session": "`session.get(User, 5)` replaces query.get.",
            "tls": "rustls-tls made the image small.",
            "no": "There is no way, no.",
        },
        {},
        {"--no-ff": [], "ERR_SSL_PROTOCOL_ERROR": [], "ssl": ["tls"]},
    ),
}


@pytest.mark.both_stores
@pytest.mark.parametrize("name", CASES)
def test_other_forms_are_found(library: recollect.Library, name: str) -> None:
    case = CASES[name]
    add_texts(library, case.texts)
    for query, first in case.first.items():
        page = library.search(query, mode="text", correct=case.correct)
        assert [hit.conversation_id for hit in page.hits][:1] == [first], query
    for query, names in case.only.items():
        page = library.search(query, mode="text", correct=case.correct)
        assert sorted(hit.conversation_id for hit in page.hits) == sorted(names), query


@pytest.mark.parametrize(
    ("typed", "other"),
    [
        ("The service is down.", "The PaymentService retries."),
        ("Use service here.", "Use AutoService here."),
        ("The meeting is in room 2024.", "It costs 2,024 dollars."),
        ("Use EventLoop here.", "Use the event loop here."),
    ],
)
def test_what_the_library_has_as_typed_is_enough(
    library: recollect.Library, typed: str, other: str
) -> None:
    add_texts(library, {"typed": typed, "other": other})
    query = next(word for word in ("service", "2024", "EventLoop") if word in typed)
    page = library.search(query, mode="text")
    assert [hit.conversation_id for hit in page.hits] == ["typed"]


def test_words_in_one_word_rank_between_adjacent_and_scattered_words(
    library: recollect.Library,
) -> None:
    texts = {
        "one": "The AbortController stops it.",
        "adjacent": "An abort controller stops it.",
        "scattered": "The controller may abort it.",
        "some": "They may abort it.",
    }
    add_texts(library, texts)
    hits = library.search("abort controller").hits
    assert [hit.conversation_id for hit in hits] == ["adjacent", "one", "scattered", "some"]


def test_a_number_that_occurs_nowhere_resembles_nothing(library: recollect.Library) -> None:
    add_texts(library, {"rent": "It costs 123456.", "year": "The year 1499 was warm."})
    library.index()
    for query in ("123 456", "1500"):
        page = library.search(query)
        assert (page.hits, page.total) == ((), 0)
    assert page.note.startswith("No message mentions “1500”.")


# -- missing spaces, which are corrected visibly ---

SPACED = {
    "care": "My self-care routine: no screens after ten, a bath, and a book.",
    "fryer": "The air fryer is loud. A fryer needs air, too.",
    "market": "There is a market for every air.",
    "coast": "We fly to Da Nang.",
    "guess": "Was it her man or for men?",
    "brien": "O'Brien called three times.",
}


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "correction", "names"),
    [
        ("selfcare", "self care", ["care"]),
        ("airfryer", "air fryer", ["fryer"]),
        ("airmarket", None, []),  # both words, but apart
        ("danang", "da nang", ["coast"]),
        ("herman", None, []),
        ("obrien", "o brien", ["brien"]),
    ],
)
def test_a_missing_space_is_corrected(
    library: recollect.Library, query: str, correction: str | None, names: list[str]
) -> None:
    add_texts(library, SPACED)
    page = library.search(query)
    assert [hit.conversation_id for hit in page.hits] == names
    assert page.corrections == ({query: correction} if correction else {})
    if correction:
        assert page.note == f"Searched for “{correction}” instead of “{query}”."
    assert library.search(query, correct=False).hits == ()


def test_a_space_is_only_inserted_where_the_filter_finds_something(
    library: recollect.Library,
) -> None:
    add_texts(library, SPACED)
    page = library.search("airfryer", project="home")
    assert (page.hits, page.corrections) == ((), {})
