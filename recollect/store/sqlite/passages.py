"""Queries for passages: by key, by substring, by date, and the variants of words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from recollect.errors import SearchTimeout
from recollect.language.languages import ENGLISH, Language
from recollect.language.text import fold
from recollect.language.words import related_words, stem
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.candidates import COLUMNS, decode_columns
from recollect.store.sql.matches import newest_of_documents
from recollect.store.sql.selection import few_documents, literal_text, resolve_filter
from recollect.store.sqlite.compression import unpack_ids
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.filters import conditions
from recollect.store.sqlite.scans import Scan, all_keys, joined, scan_by_date, scan_by_key
from recollect.store.sqlite.substring import (
    MAX_SORTED_MATCHES,
    KeyQuery,
    candidates_for_text,
    documents_titled,
    passages_with_all_words,
    passages_with_word_part,
    words_of,
)
from recollect.store.values import Candidate, SubstringMatches

__all__ = [
    "candidates",
    "find_substring",
    "known_words",
    "newest",
    "previous_passages",
    "recent",
    "sample",
    "variants",
    "words_containing",
]

_ALL = Filter(hidden=True)
# The text and the id as they are stored: to decompress them here is faster than in SQL.
_COLUMNS = COLUMNS.replace("p.content", "p.body").replace("p.id", "p.packed_id")
_ID = Candidate._fields.index("id")
_CONTENT = Candidate._fields.index("content")
# Passages without a date come last.
_NEWEST_FIRST = "p.created_at desc, p.key desc"
_NO_LIMIT = -1
# A scan leaves the rest of the time to read the page that it found.
_SCAN_SHARE = 0.9
# Variants are added to the query, so their number is bounded.
_MAX_VARIANTS = 50
_MAX_WORDS_IN_MEMORY = 200_000  # about 2 MB for each connection


# -- by key ---


def candidates(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    """See Store.candidates."""
    where, values = conditions(resolve_filter(db, filter))
    rows = db.execute(
        f"""select {_COLUMNS} from json_each(?) k cross join passage p on p.key = k.value
        cross join document d on d.key = p.document where {where}""",
        (json.dumps(sorted(keys)), *values),  # keys next to each other are on the same page
    )
    return _candidates(db, rows)


def _candidates(db: Connection, rows: Iterable[tuple[Any, ...]]) -> list[Candidate]:
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    if columns:
        columns[_ID] = unpack_ids(columns[_ID])
        columns[_CONTENT] = db.codec.contents(columns[_CONTENT])
    return decode_columns(columns)


def previous_passages(db: Connection, keys: Sequence[int]) -> list[Candidate]:
    """See Store.previous_passages."""
    rows = db.execute(
        f"""select {_COLUMNS} from json_each(?) k cross join passage a on a.key = k.value
        cross join passage p on p.document = a.document and p.position = a.position - 1
        cross join document d on d.key = p.document""",
        (json.dumps(sorted(keys)),),
    )
    return _candidates(db, rows)


def sample(db: Connection, limit: int) -> Iterator[str]:
    """See Store.sample."""
    _, newest_key = all_keys(db)
    step = max(1, newest_key // limit)
    for key in range(1, newest_key + 1, step):
        content = db.get("select content from passage where key = ?", (key,))
        if content is not None:
            yield content


# -- words ---


def variants(
    db: Connection, words: Sequence[str], language: Language = ENGLISH
) -> list[tuple[str, ...]]:
    """See Store.variants."""
    return [(word, *sorted(_related_words(db, word, language) - {word})) for word in words]


def known_words(db: Connection, words: Sequence[str]) -> set[str]:
    """See Store.known_words."""
    members, value = db.in_list(words)
    return {
        term for (term,) in db.rows(f"select term from word where term in ({members})", (value,))
    }


def _related_words(db: Connection, word: str, language: Language = ENGLISH) -> set[str]:
    """The words with the same stem."""
    key = ("related words", word, language)
    return db.memoize(key, lambda: find_related_words(db, word, language))


def find_related_words(db: Connection, word: str, language: Language = ENGLISH) -> set[str]:
    if language is ENGLISH:
        terms = terms_with_stem(db, word)
    else:
        terms = terms_of_language(db, word, language)
    word_stem = stem(word, language)
    same_stem = sorted(term for term in terms if stem(term, language) == word_stem)
    return set(same_stem[:_MAX_VARIANTS])


def words_containing(db: Connection, parts: Sequence[str]) -> dict[str, list[str]]:
    """See Store.words_containing."""
    return {part: _words_containing(db, part) for part in parts}


def _words_containing(db: Connection, part: str) -> list[str]:
    limit = LIMITS.word_matches
    vocabulary = db.memoize("vocabulary", lambda: _vocabulary(db))
    if vocabulary is None:
        rows = db.rows(
            "select term from word where instr(term, ?) order by term limit ?", (part, limit)
        )
        return [term for (term,) in rows]
    words: list[str] = []
    position = vocabulary.find(part)
    while position >= 0 and len(words) < limit:
        start = vocabulary.rfind("\n", 0, position) + 1
        end = vocabulary.find("\n", position)
        words.append(vocabulary[start:end])
        position = vocabulary.find(part, end)
    return words


def _vocabulary(db: Connection) -> str | None:
    """All words, each followed by a line break; None if there are very many.

    Reading them takes as long as one query for the words that contain another one.
    """
    text, count = db.rows(
        "select group_concat(term, char(10)), count(*) "
        "from (select term from word order by term limit ?)",
        (_MAX_WORDS_IN_MEMORY + 1,),
    )[0]
    if count > _MAX_WORDS_IN_MEMORY:
        return None
    return f"{text or ''}\n"


def terms_with_stem(db: Connection, word: str) -> set[str]:
    """The terms with the same English stem, which the vocabulary has."""
    rows = db.rows(
        "select term from word where stem = ?1 "
        "union select term from word where term in (?1, ?2) limit ?3",
        (stem(word), word, _MAX_VARIANTS),
    )
    return {term for (term,) in rows}


def terms_of_language(db: Connection, word: str, language: Language = ENGLISH) -> set[str]:
    """The terms that may have the same stem in this language."""
    words, prefixes = related_words(word, language)
    members, value = db.in_list(sorted(words))
    rows = db.rows(f"select term from word where term in ({members})", (value,))
    for prefix in prefixes:
        rows += db.rows(
            "select term from word where term >= ? and term < ? limit ?",
            (prefix, prefix + "\U0010ffff", LIMITS.word_matches),
        )
    return {term for (term,) in rows}


# -- literal text ---


def find_substring(
    db: Connection,
    text: str,
    filter: Filter,
    limit: int,
    offset: int,
    by_document: bool = False,
) -> SubstringMatches:
    """See Store.find_substring. If the text is frequent, this is a scan."""
    text, filter = literal_text(text), resolve_filter(db, filter)
    documents = few_documents(db, filter)
    if not by_document and (documents is None or not are_short(db, documents)):
        matches = passages_with_word_part(db, text)
        if matches is not None:
            return indexed_matches(db, matches, filter, limit, offset)
    scan = literal_scan(db, text, filter, documents, [])
    passages, is_complete = scan_texts(db, text, scan, set(), _NO_LIMIT)
    if by_document:
        newest: dict[int, int] = {}
        for key, document in passages:
            newest.setdefault(document, key)
        keys = list(newest.values())
    else:
        keys = [key for key, _ in passages]
    page = in_order(db, keys[offset : offset + limit])
    return SubstringMatches(page, len(keys), is_complete)


def are_short(db: Connection, documents: Sequence[int]) -> bool:
    """Whether reading the texts of these documents is faster than searching the whole index."""
    members, value = db.in_list(documents)
    count = db.get(f"select sum(passages) from document where key in ({members})", (value,))
    return (count or 0) <= MAX_SORTED_MATCHES


def literal_scan(
    db: Connection,
    text: str,
    filter: Filter,
    documents: Sequence[int] | None,
    titled: Sequence[int],
) -> Scan:
    """Visit the passages that may contain a text, and those of the documents `titled`.

    `documents` are those that pass the filter, if they are few.
    """
    scan = scan_by_date(db, filter, documents)
    if documents is not None and are_short(db, documents):
        return scan
    keys = candidates_for_text(db, text)
    if keys is None:
        return scan
    if titled:
        keys.update(keys_in(db, titled))
    return scan_keys(sorted(keys), filter, scan)


def keys_in(db: Connection, documents: Sequence[int]) -> set[int]:
    members, value = db.in_list(documents)
    rows = db.execute(f"select key from passage where document in ({members})", (value,))
    return {key for (key,) in rows}


def scan_keys(keys: Sequence[int], filter: Filter, scan: Scan) -> Scan:
    """Scan only the passages with these keys that pass the filter.

    Few are looked up and sorted. To sort many, all of them would be read before the first is known,
    so `scan`, which visits all passages that pass the filter, skips the others.
    """
    if len(keys) > MAX_SORTED_MATCHES:
        condition = "p.key in (select value from json_each(?))"
        return with_condition(scan, condition, [json.dumps(keys)])
    where, values = conditions(filter)
    source = "json_each(?) f cross join passage p on p.key = f.value"
    return Scan(source, where, [json.dumps(keys), *values])


def scan_texts(
    db: Connection, text: str, scan: Scan, titled: AbstractSet[int], limit: int
) -> tuple[list[tuple[int, int]], bool]:
    """The newest passages of a scan that contain a text, or whose documents are in `titled`.

    Each with its document, up to a limit, and whether there was time for that.
    """
    source, values = joined(scan)
    rows = db.execute(
        f"select p.key, p.document, p.body from {source} order by {_NEWEST_FIRST}", values
    )
    contains = db.codec.finder(fold(text))
    end = time.thread_time() + _SCAN_SHARE * LIMITS.search_seconds
    matches: list[tuple[int, int]] = []
    for key, document, body in rows:
        if document in titled or contains(body):
            matches.append((key, document))
            if len(matches) == limit:
                break
        if time.thread_time() > end:
            return matches, False
    return matches, True


def in_order(db: Connection, keys: Sequence[int]) -> list[Candidate]:
    """The passages with these keys, in the same order."""
    by_key = {candidate.key: candidate for candidate in candidates(db, keys, _ALL)}
    return [by_key[key] for key in keys]


def indexed_matches(
    db: Connection, matches: KeyQuery, filter: Filter, limit: int, offset: int
) -> SubstringMatches:
    """A page of the passages that a query selects. Only the texts of the page are read."""
    where, values = conditions(filter)
    rows = db.execute(
        f"""select p.key from ({matches.sql}) f cross join passage p on p.key = f.key
        cross join document d on d.key = p.document where {where} order by {_NEWEST_FIRST}""",
        (*matches.values, *values),
    )
    keys = [key for (key,) in rows]
    return SubstringMatches(in_order(db, keys[offset : offset + limit]), len(keys))


# -- by date ---


def newest(
    db: Connection, filter: Filter, limit: int, offset: int, by_document: bool = False
) -> tuple[list[Candidate], int]:
    """See Store.newest."""
    filter = resolve_filter(db, filter)
    documents = few_documents(db, filter)
    if by_document:
        keys = db.memoize(
            ("newest of documents", filter),
            lambda: newest_of_documents(db, *joined(scan_by_key(db, filter, documents))),
        )
        return in_order(db, keys[offset : offset + limit]), len(keys)
    counted, values = joined(scan_by_key(db, filter, documents))
    total: int = db.get(f"select count(*) from {counted}", values)
    scan = scan_by_date(db, filter, documents)
    rows = db.execute(
        f"""select {_COLUMNS} from {scan.source} cross join document d on d.key = p.document
        where {scan.where} order by {_NEWEST_FIRST} limit ? offset ?""",
        (*scan.values, limit, offset),
    )
    return _candidates(db, rows), total


def recent(
    db: Connection,
    text: str | None,
    filter: Filter,
    limit: int,
    by_words: bool = False,
) -> list[Candidate]:
    """See Store.recent."""
    filter = resolve_filter(db, filter)
    if text:
        text = literal_text(text)
    documents = few_documents(db, filter)
    if text is not None and not by_words:
        titled = list(documents_titled(db, text, documents))
        scan = literal_scan(db, text, filter, documents, titled)
        matches, is_complete = scan_texts(db, text, scan, set(titled), limit)
        if not is_complete:
            raise SearchTimeout
        return in_order(db, [key for key, _ in matches])
    scan = scan_by_date(db, filter, documents)
    if text is not None:
        titled = list(documents_titled(db, text, documents, by_words=True))
        scan = scan_words(db, text, filter, scan, json.dumps(titled))
    rows = db.execute(
        f"""select {_COLUMNS} from {scan.source} cross join document d on d.key = p.document
        where {scan.where} order by {_NEWEST_FIRST} limit ?""",
        (*scan.values, limit),
    )
    return _candidates(db, rows)


def scan_words(db: Connection, text: str, filter: Filter, scan: Scan, titled: str) -> Scan:
    """Scan the passages with all words of a text, or whose documents are in the array `titled`.

    A few matches are collected and sorted. If there are many, a scan from the newest passage soon
    finds enough of them.
    """
    in_titled = "p.document in (select value from json_each(?))"
    words = passages_with_all_words(db, text)
    if words.is_frequent(db):
        condition = f"(has_all_words(p.content, ?) or {in_titled})"
        return with_condition(scan, condition, [words_of(text), titled])
    keys = words.keys_if_few(db)
    if keys is None:
        condition = f"(p.key in ({words.sql}) or {in_titled})"
        return with_condition(scan, condition, [*words.values, titled])
    source = """(select value as key from json_each(?) union
      select key from passage where document in (select value from json_each(?))
      ) f cross join passage p on p.key = f.key"""
    where, values = conditions(filter)
    return Scan(source, where, [keys, titled, *values])


def with_condition(scan: Scan, condition: str, values: Sequence[str]) -> Scan:
    return Scan(scan.source, f"{scan.where} and {condition}", [*scan.values, *values])
