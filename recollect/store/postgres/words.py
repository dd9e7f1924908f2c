"""The text index of a library, and its vocabulary: the table `word`, with all words and stems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recollect.language.languages import ENGLISH, Language
from recollect.language.words import related_words, stem
from recollect.settings import LIMITS
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.lexemes import LONGEST, folded_content, text_vector
from recollect.store.sql.database import IndexRow

_VARIANTS = 50  # the most words of the library with the same stem
_NEWEST = 1_000  # passages


def word_rows(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Words with their stems, as they are stored."""
    rows: list[tuple[str, str | None]] = []
    for word in words:
        root = stem(word)
        rows.append((word, None if root == word else root))
    return rows


def delete_unused_words(db: Connection, words: Sequence[str]) -> None:
    """Delete those of the words that no passage has.

    The index finds all passages with a word before we know that there is one. So the words of the
    newest passages, which include the frequent ones, are left out first.
    """
    rare_words = db.rows(
        f"""select w.term from unnest(?::text[]) w(term) where w.term not in (
          select unnest(tsvector_to_array(t.words)) from (
            select n.words from passage_text n where n.owner = {OWNER}
            order by n.key desc limit ?) t)""",
        (list(words), _NEWEST),
    )
    if not rare_words:
        return
    unused = db.rows(f"select absent({OWNER}, ?::text[])", ([word for (word,) in rare_words],))
    if unused:
        db.run(
            "delete from word where owner = ?::integer and term = any(?::text[])",
            (db.owner, [word for (word,) in unused]),
        )


def variants(
    db: Connection, words: Sequence[str], language: Language = ENGLISH
) -> list[tuple[str, ...]]:
    """See Store.variants."""
    if not words:
        return []
    stems = [stem(word, language) for word in words]
    if language is ENGLISH:
        terms = terms_with_stems(db, stems)
    else:
        terms = terms_of_language(db, words, language)
    by_stem: dict[str, set[str]] = {}
    for term in terms:
        by_stem.setdefault(stem(term, language), set()).add(term)
    related = [sorted(by_stem.get(root, ()))[:_VARIANTS] for root in stems]
    return [
        (word, *(other for other in others if other != word))
        for word, others in zip(words, related, strict=True)
    ]


def known_words(db: Connection, words: Sequence[str]) -> set[str]:
    """See Store.known_words."""
    if not words:
        return set()
    rows = db.rows(
        f"select term from word where {db.own()} and term = any(?::text[])", (list(words),)
    )
    return {term for (term,) in rows}


def terms_with_stems(db: Connection, stems: Sequence[str]) -> list[str]:
    """The terms with one of these English stems."""
    rows = db.rows(
        f"""select term from word where {db.own()} and stem = any(?::text[])
        union all
        select term from word where {db.own()} and term = any(?::text[]) and stem is null""",
        (stems, stems),
    )
    return [term for (term,) in rows]


def terms_of_language(db: Connection, words: Sequence[str], language: Language) -> list[str]:
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


def words_containing(db: Connection, parts: Sequence[str]) -> dict[str, list[str]]:
    """See Store.words_containing."""
    rows = db.rows(
        """select part, w.term from unnest(?::text[]) part cross join lateral (
          select term from word where owner = ?::integer and strpos(term, part) > 0
          order by term limit ?) w""",
        (list(parts), db.owner, LIMITS.word_matches),
    )
    words: dict[str, list[str]] = {part: [] for part in parts}
    for part, term in rows:
        words[part].append(term)
    return words


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


# -- the text index ---


VERSION = 2


class IndexWriter:
    """The text index in one transaction (see `store.sql.database.TextIndex`)."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, rows: Iterable[IndexRow]) -> None:
        rows = list(rows)
        vectors = [text_vector(title, content) for _, title, content in rows]
        self._db.run(
            f"""insert into passage_text (owner, key, document, created_at, role, author, hidden,
              opening, sure, whole, length, words, folded)
            select p.owner, p.key, p.document, p.created_at, p.role, p.author,
              p.visibility = 'hidden', k.opening, k.sure, k.whole, k.length, k.words::tsvector,
              k.folded
            from unnest(?::bigint[], ?::boolean[], ?::boolean[], ?::boolean[], ?::integer[],
              ?::text[], ?::text[]) k(key, opening, sure, whole, length, words, folded)
            {self._db.by_key("passage", "p", "k.key")}""",
            (
                [key for key, _, _ in rows],
                [bool(title) for _, title, _ in rows],
                [vector.has_all_positions for vector in vectors],
                [vector.has_all_words for vector in vectors],
                [vector.length for vector in vectors],
                [vector.literal for vector in vectors],
                [folded_content(content) for _, _, content in rows],
            ),
        )
        words = sorted(set().union(*(vector.distinct for vector in vectors)))
        missing_words = sorted(set(words) - known_words(self._db, words))
        self._db.insert("word", ("term", "stem"), word_rows(missing_words), keep_existing=True)

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        keys = []
        words: set[str] = set()
        for key, title, content in rows:
            keys.append(key)
            words |= text_vector(title, content).distinct
        self._db.run(
            "delete from passage_text where owner = ?::integer and key = any(?::bigint[])",
            (self._db.owner, keys),
        )
        delete_unused_words(self._db, sorted(words))

    def replace(self, before: Sequence[IndexRow], after: Sequence[IndexRow]) -> None:
        self.remove(before)
        self.add(after)
