"""The vocabulary of a library: the table `word`, with every word and its stem."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.stem import related_words, stem
from recollect.settings import LIMITS
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.lexemes import LONGEST

_CACHE_SIZE = 500_000
_MIN_SUBSTRING_CHARACTERS = 5  # shorter words are in too many others
_VARIANTS = 50


class Vocabulary:
    """A cache of words that are in the table, so that most words are not written again.

    It is valid for one value of `last_key.removed`: every deletion changes that counter, and may
    remove words.
    """

    def __init__(self) -> None:
        self._words: frozenset[str] = frozenset()
        self._removed = -1

    def missing(self, words: set[str], removed: int) -> set[str]:
        """The words that may not be in the table."""
        if removed != self._removed:
            return set(words)
        return words - self._words

    def add(self, words: set[str], removed: int) -> None:
        """Add words after their transaction was committed."""
        if removed != self._removed or len(self._words) > _CACHE_SIZE:
            self._words = frozenset()
            self._removed = removed
        self._words |= words


def insert_words(db: Connection, words: Sequence[str]) -> None:
    rows: list[tuple[str, str | None]] = []
    for word in words:
        root = stem(word)
        rows.append((word, None if root == word else root))
    db.insert("word", ("term", "stem"), rows, keep_existing=True)


def delete_unused_words(db: Connection, words: Sequence[str]) -> None:
    unused = db.rows(f"select absent({OWNER}, ?::text[])", (list(words),))
    if unused:
        db.run(
            "delete from word where owner = ?::integer and term = any(?::text[])",
            (db.owner, [word for (word,) in unused]),
        )


def variants(db: Connection, words: Sequence[str], language: Language) -> list[tuple[str, ...]]:
    """See Store.variants."""
    stems = [stem(word, language) for word in words]
    if language is ENGLISH:
        terms = _terms_with_stems(db, words, stems)
    else:
        terms = _terms_of_language(db, words, language)
    by_stem: dict[str, set[str]] = {}
    for term in terms:
        by_stem.setdefault(stem(term, language), set()).add(term)
    related = [set(sorted(by_stem.get(root, set()))[:_VARIANTS]) for root in stems]
    if len(words) == 1 and not related[0]:
        related = [_words_containing(db, words[0])]
    return [(word, *sorted(others - {word})) for word, others in zip(words, related, strict=True)]


def known_words(db: Connection, words: Sequence[str]) -> set[str]:
    """See Store.known_words."""
    rows = db.rows(
        "select term from word where owner = ?::integer and term = any(?::text[])",
        (db.owner, list(words)),
    )
    return {term for (term,) in rows}


def _terms_with_stems(db: Connection, words: Sequence[str], stems: Sequence[str]) -> list[str]:
    """The terms with these English stems, which the vocabulary has."""
    rows = db.rows(
        """select w.term from word w
        where w.owner = ?::integer and (w.stem = any(?::text[]) or w.term = any(?::text[]))""",
        (db.owner, stems, [*words, *stems]),
    )
    return [term for (term,) in rows]


def _terms_of_language(db: Connection, words: Sequence[str], language: Language) -> list[str]:
    """The terms that may have the same stem as one of the words in this language.

    In every collation, words that begin with a prefix and go on with letters up to z are before the
    prefix followed by many z.
    """
    exact: set[str] = set()
    prefixes: set[str] = set()
    for word in words:
        more_words, more_prefixes = related_words(word, language)
        exact |= more_words
        prefixes |= more_prefixes
    rows = db.rows(
        """select term from word where owner = ?::integer and term = any(?::text[])
        union select w.term from unnest(?::text[]) as prefix cross join lateral
          (select term from word where owner = ?::integer
           and term >= prefix and term <= prefix || repeat('z', 32) order by term limit ?) w""",
        (db.owner, sorted(exact), sorted(prefixes), db.owner, LIMITS.word_matches),
    )
    return [term for (term,) in rows]


def _words_containing(db: Connection, word: str) -> set[str]:
    """Somebody who types a part of a word looks for the words that contain it."""
    if len(word) < _MIN_SUBSTRING_CHARACTERS:
        return set()
    rows = db.rows(
        """select term from word where owner = ?::integer and strpos(term, ?) > 0
        order by term limit ?""",
        (db.owner, word, _VARIANTS),
    )
    return {term for (term,) in rows}


def words_with_fragment(
    db: Connection, fragment: str, open_left: bool, open_right: bool
) -> list[str] | None:
    """The words that contain a fragment, or None if there are too many.

    The fragment is the whole word, or more letters may come before it (`open_left`) or after it
    (`open_right`).
    """
    if not open_left and not open_right:
        return [fragment]
    values: tuple[object, ...] = (fragment,)
    if not open_left:
        condition = "starts_with(term, ?)"
    elif not open_right:
        condition = "right(term, ?) = ?"
        values = (len(fragment), fragment)
    else:
        condition = "strpos(term, ?) > 0"
    # Words that were cut may contain the fragment in the part that is not stored.
    rows = db.rows(
        f"""select term from word where owner = ?::integer and {condition}
        union select term from word where owner = ?::integer and length(term) >= {LONGEST}
        limit ?""",
        (db.owner, *values, db.owner, LIMITS.word_matches + 1),
    )
    if len(rows) > LIMITS.word_matches:
        return None
    return [term for (term,) in rows]
