"""Find passages that contain a text literally, or all its words.

Substring search uses the vocabulary: find the words that contain the first and last fragment of the
text, search the index for those words, then verify against the text.
"""

from __future__ import annotations

from recollect.language.text import fold, indexable_fragment, tokens
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.joins import passages_and_words
from recollect.store.postgres.text.lexemes import LONGEST, NO_MATCH
from recollect.store.postgres.text.matches import FILTER_PARAMETERS, filter_arguments
from recollect.store.postgres.text.vocabulary import words_with_fragment

# With this many matches, scanning from the newest passage is faster than sorting them.
_MANY = 3_000
CONTAINS = 'strpos(coalesce(t.folded, lower(p.content collate "C")), ?) > 0'
"""Whether a passage contains a folded text. ASCII texts are not stored in folded form."""


def all_words_query(text: str) -> str:
    """A tsquery for passages with every word of the text in their content, or empty."""
    return " & ".join(f"'{word[:LONGEST]}':D" for word in dict.fromkeys(tokens(text)))


def long_words(text: str) -> list[str]:
    """The words of which the index only has the beginning."""
    return [word for word in tokens(text) if len(word) >= LONGEST]


def documents_with_title(
    db: Connection, text: str, documents: list[int] | None, by_words: bool
) -> list[int]:
    """The documents whose title contains the text literally, or all its words.

    None means all documents.
    """
    where = "strpos(d.folded_title, ?) > 0"
    values: list[object] = [fold(text)]
    if by_words:
        values = [f" {word} " for word in sorted(set(tokens(text)))]
        where = " and ".join(["strpos(d.title_words, ?) > 0"] * len(values)) or "false"
    if documents is not None:
        where += " and d.key = any(?::bigint[])"
        values.append(documents)
    rows = db.rows(
        f"select d.key from document d where d.owner = ?::integer and d.title <> '' and {where}",
        (db.owner, *values),
    )
    return [key for (key,) in rows]


def passages_with_all_words(db: Connection, text: str) -> list[int] | None:
    """The passages that contain all words of the text; None if there are many."""
    if long_words(text):
        return None
    words_query = all_words_query(text)
    # A GIN index does not store labels, so words in titles are excluded in a second step.
    keys = _newest(db, words_query.replace(":D", ""))
    if len(keys) == _MANY:
        return None
    in_content = "(not t.opening or t.words @@ ?::tsquery)"
    return sorted(_select(db, keys, in_content, words_query))


def passages_with_text(db: Connection, text: str) -> list[int] | None:
    """The passages that contain the text literally.

    None if there are many, or if the index cannot narrow them down.
    """
    query = _literal_query(db, text)
    if query is None:
        return None
    keys = _newest(db, query)
    if len(keys) == _MANY:
        return None
    rows = db.rows(
        "select key from passage_text where owner = ?::integer and not whole limit ?",
        (db.owner, _MANY),
    )
    if len(rows) == _MANY:  # too many messages are too long to be indexed as a whole
        return None
    keys += [key for (key,) in rows]
    return sorted(_select(db, keys, CONTAINS, fold(text)))


def _newest(db: Connection, query: str) -> list[int]:
    rows = db.rows(
        f"select newest({OWNER}, ?::tsquery, null, ?::integer, {FILTER_PARAMETERS})",
        (query, _MANY, *filter_arguments(db, Filter(hidden=True))),
    )
    return [key for (key,) in rows]


def _select(db: Connection, keys: list[int], condition: str, value: str) -> set[int]:
    rows = db.rows(
        f"""select p.key from {passages_and_words(db)}
        where p.owner = ?::integer and p.key = any(?::bigint[]) and {condition}""",
        (db.owner, keys, value),
    )
    return {key for (key,) in rows}


def _literal_query(db: Connection, text: str) -> str | None:
    """A tsquery for passages whose words could contain the text, or None if it is too general."""
    folded = indexable_fragment(text)
    fragments = tokens(folded)
    parts = []
    for number, fragment in enumerate(fragments):
        open_left = number == 0 and folded.startswith(fragment)
        open_right = number == len(fragments) - 1 and folded.endswith(fragment)
        terms = words_with_fragment(db, fragment[:LONGEST], open_left, open_right)
        # With too many words, the other fragments must narrow the query down.
        if terms is not None:
            alternatives = " | ".join(f"'{term}'" for term in terms) or NO_MATCH
            parts.append(f"({alternatives})")
    return " & ".join(parts) if parts else None
