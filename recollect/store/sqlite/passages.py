"""Queries for passages: by key, by substring, by date, and the variants of words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from recollect.errors import SearchTimeout
from recollect.language.languages import ENGLISH, Language
from recollect.language.text import fold, has_all_words
from recollect.language.words import related_words, stem
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql import spaces as space_sql
from recollect.store.sql.encoding import CANDIDATE_COLUMNS, decode_columns
from recollect.store.sql.lookup import passage_keys as passage_keys
from recollect.store.sql.matches import newest_of_documents
from recollect.store.sql.selection import few_documents, literal_text, resolve_filter
from recollect.store.sqlite.compression import unpack_ids
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.filters import conditions
from recollect.store.sqlite.fts import has_positions
from recollect.store.sqlite.scans import Scan, joined, scan_by_date, scan_by_key
from recollect.store.sqlite.substring import (
    MAX_SORTED_MATCHES,
    candidates_for_text,
    candidates_for_words,
    documents_titled,
    matching,
    single_word_query,
    words_of,
)
from recollect.store.values import Candidate, CandidatePage, Space, Unembedded

_ALL = Filter(hidden=True)
# The text and the id as they are stored: to decompress them here is faster than in SQL.
_COLUMNS = CANDIDATE_COLUMNS.replace("p.content", "p.body").replace("p.id", "p.packed_id")
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


def previous_passages(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    """The passages directly before these."""
    where, values = conditions(resolve_filter(db, filter))
    rows = db.execute(
        f"""select {_COLUMNS} from json_each(?) k cross join passage a on a.key = k.value
        cross join passage p on p.document = a.document and p.position = a.position - 1
        cross join document d on d.key = p.document where {where}""",
        (json.dumps(sorted(keys)), *values),
    )
    return _candidates(db, rows)


def unembedded(
    db: Connection, space: Space, limit: int, after: int | None = None
) -> tuple[list[Unembedded], int]:
    """See Store.unembedded. To decompress texts here is faster than in an SQL function."""
    if after is not None:
        return space_sql.unembedded(db, space, limit, after)
    passages, total = space_sql.unembedded(db, space, limit, content="p.body")
    contents = db.codec.contents([passage.content for passage in passages])
    for passage, content in zip(passages, contents, strict=True):
        passage.content = content
    return passages, total


# -- words ---


def variants(
    db: Connection, words: Sequence[str], language: Language = ENGLISH
) -> list[tuple[str, ...]]:
    """See Store.variants. The vocabulary has the English stem of each word."""
    found = []
    for word in words:
        word_stem = stem(word, language)
        if language is ENGLISH:
            rows = db.rows(
                "select term from word where stem = ?1 "
                "union select term from word where term in (?1, ?2) limit ?3",
                (word_stem, word, _MAX_VARIANTS),
            )
            terms = {term for (term,) in rows}
        else:
            terms = terms_of_language(db, word, language)
        same_stem = sorted(term for term in terms if stem(term, language) == word_stem)
        found.append((word, *(term for term in same_stem[:_MAX_VARIANTS] if term != word)))
    return found


def known_words(db: Connection, words: Sequence[str]) -> set[str]:
    """See Store.known_words."""
    members, value = db.in_list(words)
    return {
        term for (term,) in db.rows(f"select term from word where term in ({members})", (value,))
    }


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
) -> CandidatePage:
    """A page of the passages that contain a text."""
    text, filter = literal_text(text), resolve_filter(db, filter)
    documents = few_documents(db, filter)
    query = None
    if not by_document and (documents is None or not are_short(db, documents)):
        query = single_word_query(db, text)
    if query is not None:
        keys, is_complete = exact_matches(db, text, query, filter), True
    else:
        keys_to_read = candidates_for_text(db, text)
        is_found = db.codec.finder(fold(text))
        matches, is_complete = verified(
            db, filter, documents, keys_to_read, lambda _, body: is_found(body), _NO_LIMIT
        )
        keys = [key for key, _ in matches]
        if by_document:
            newest: dict[int, int] = {}
            for key, document in matches:
                newest.setdefault(document, key)
            keys = list(newest.values())
    return CandidatePage(in_order(db, keys[offset : offset + limit]), len(keys), is_complete)


def exact_matches(db: Connection, text: str, query: str, filter: Filter) -> list[int]:
    """The passages that match a query, newest first. Only those with a title are verified."""
    where, values = conditions(filter)
    is_match = "true" if has_positions(db) else "(d.opening is not p.key or contains(p.content, ?))"
    rows = db.rows(
        f"""select p.key from ({matching(db)}) f cross join passage p on p.key = f.key
        cross join document d on d.key = p.document
        where {where} and {is_match} order by {_NEWEST_FIRST}""",
        (query, *values, *[fold(text)] * is_match.count("?")),
    )
    return [key for (key,) in rows]


def are_short(db: Connection, documents: Sequence[int]) -> bool:
    """Whether reading the texts of these documents is faster than searching the whole index."""
    members, value = db.in_list(documents)
    count = db.get(f"select sum(passages) from document where key in ({members})", (value,))
    return (count or 0) <= MAX_SORTED_MATCHES


def verified(
    db: Connection,
    filter: Filter,
    documents: Sequence[int] | None,
    keys: set[int] | None,
    is_match: Callable[[int, str | bytes], bool],
    limit: int,
) -> tuple[list[tuple[int, int]], bool]:
    """The newest passages that match, up to a limit, and whether there was time for that.

    `documents` are those that pass the filter, if they are few, and `keys` the passages that may
    match, if that is known. A match is decided by its document and its stored text.
    """
    scan = scan_by_date(db, filter, documents)
    if keys is not None and not (documents is not None and are_short(db, documents)):
        in_keys = json.dumps(sorted(keys))
        if len(keys) <= MAX_SORTED_MATCHES:
            where, values = conditions(filter)
            source = "json_each(?) f cross join passage p on p.key = f.value"
            scan = Scan(source, where, [in_keys, *values])
        else:
            where = f"{scan.where} and p.key in (select value from json_each(?))"
            scan = Scan(scan.source, where, [*scan.values, in_keys])
    source, values = joined(scan)
    rows = db.execute(
        f"select p.key, p.document, p.body from {source} order by {_NEWEST_FIRST}", values
    )
    end = time.thread_time() + _SCAN_SHARE * LIMITS.search_seconds
    matches: list[tuple[int, int]] = []
    for key, document, body in rows:
        if is_match(document, body):
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


# -- by date ---


def newest(
    db: Connection, filter: Filter, limit: int, offset: int, by_document: bool = False
) -> CandidatePage:
    """See Store.newest."""
    filter = resolve_filter(db, filter)
    documents = few_documents(db, filter)
    if by_document:
        keys = db.memoize(
            ("newest of documents", filter),
            lambda: newest_of_documents(db, *joined(scan_by_key(db, filter, documents))),
        )
        return CandidatePage(in_order(db, keys[offset : offset + limit]), len(keys))
    counted, values = joined(scan_by_key(db, filter, documents))
    total: int = db.get(f"select count(*) from {counted}", values)
    return CandidatePage(newest_page(db, filter, documents, limit, offset), total)


def newest_page(
    db: Connection, filter: Filter, documents: Sequence[int] | None, limit: int, offset: int
) -> list[Candidate]:
    scan = scan_by_date(db, filter, documents)
    rows = db.execute(
        f"""select {_COLUMNS} from {scan.source} cross join document d on d.key = p.document
        where {scan.where} order by {_NEWEST_FIRST} limit ? offset ?""",
        (*scan.values, limit, offset),
    )
    return _candidates(db, rows)


def recent(
    db: Connection,
    text: str | None,
    filter: Filter,
    limit: int,
    by_words: bool = False,
) -> list[Candidate]:
    """The newest passages, with `text` those whose content or title contains it."""
    filter = resolve_filter(db, filter)
    documents = few_documents(db, filter)
    if text is None:
        return newest_page(db, filter, documents, limit, 0)
    text = literal_text(text) if text else text
    titled = set(documents_titled(db, text, documents, by_words))
    words = set(words_of(text).split())
    is_found = db.codec.finder(fold(text))
    keys = candidates_for_words(db, words) if by_words else candidates_for_text(db, text)
    if keys is not None and titled:
        members, value = db.in_list(sorted(titled))
        rows = db.execute(f"select key from passage where document in ({members})", (value,))
        keys.update(key for (key,) in rows)

    def is_match(document: int, body: str | bytes) -> bool:
        if document in titled:
            return True
        if by_words:
            return bool(words) and has_all_words(db.codec.contents([body])[0], words)
        return is_found(body)

    matches, is_complete = verified(db, filter, documents, keys, is_match, limit)
    if not is_complete:
        raise SearchTimeout
    return in_order(db, [key for key, _ in matches])
