"""Sealed volumes: ranges of passages once more, in an index that ranks fast.

FTS5 holds everything and is exact, but takes a microsecond or more to rank a
match; Tantivy takes some nanoseconds, yet commits slowly. So a range of
passages that no longer grows is also written as a volume: a folder that is made
once, never changed, and made again when a passage in it was deleted. It is a
cache. Truth is in SQLite, and any volume may be thrown away.

A volume finds exactly the passages that FTS5 finds: it is given the words that
FTS5's own tokeniser cuts. What it cannot find the same way, it refuses. Hidden
passages (system prompts and the like) stand in an index of their own beside the
shown ones, so that leaving them out costs nothing.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import apsw
import tantivy
from tantivy import FieldType, Occur, Query

from recollect.errors import RecollectError
from recollect.language.query import And, Node, Not, Or, Word
from recollect.language.text import indexable
from recollect.store.sqlite.text import indexed

FORMAT = 1
_ABOUT = "volume.json"
_UNFINISHED = ".part"
_VISIBLE, _HIDDEN = "shown", "hidden"
# Bytes to gather before a segment is written. 125,000 messages of sixty words take half of it, and so
# become one segment; several are as right, but slower.
_HEAP = {_VISIBLE: 96_000_000, _HIDDEN: 32_000_000}
_ROWS_A_LOOK = 256  # between two looks at `stop`
_LONGEST_WORD = 32_768  # bytes; FTS5 cuts there
_TO_SPACE = bytes(n if n < 128 and chr(n).isalnum() else 0x20 for n in range(256))

_WORDS_OF_A_PREFIX = 64  # up to here each is scored, from there on the most frequent
_MOST_FREQUENT = 16
_PHRASES_OF_A_PREFIX = 256  # each is a search of its own
_LONGEST_PATTERN = 256  # bytes; Tantivy's patterns have at most 1,000 states
_SINGLY = 64  # up to here, values are faster asked for one by one than as a set
_KEYS_SINGLY = 1_000
_COUNT = {"n": {"filter": "*"}}  # the cheapest aggregation


class NotAVolume(RecollectError):
    """The folder holds no volume that this version can read, or a damaged one: make it again."""


class Unsupported(Exception):
    """The tree asks for what a volume cannot find as FTS5 does: ask FTS5."""


class Stopped(Exception):
    """A write was asked to stop; it left nothing behind."""


class Row(NamedTuple):
    """What is indexed of a passage."""

    key: int
    document: int
    title: str
    """Empty unless the passage opens its document."""
    content: str
    role: str | None = None
    author: str | None = None
    created_at: int | None = None
    """Microseconds since 1970."""
    hidden: bool = False


@dataclass(frozen=True)
class Selection:
    """What may be found. Without roles, authors, times or documents: any of them. Times are in
    microseconds and inclusive; a passage that has none is at no time."""

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    """Roles or authors."""
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    after: int | None = None
    before: int | None = None
    documents: Collection[int] | None = None
    """Their keys."""
    not_documents: Collection[int] = ()
    hidden: bool = False
    """Also hidden passages."""
    without: Collection[int] = ()
    """Keys to leave out, as those of passages that changed since the volume was made."""

    def documents_within(self, span: tuple[int, int]) -> list[int]:
        return _within(self._documents, span)

    def not_documents_within(self, span: tuple[int, int]) -> list[int]:
        return _within(self._not_documents, span)

    def without_within(self, span: tuple[int, int]) -> list[int]:
        return _within(self._without, span)

    # Every volume looks its part up, so they are put in order once.

    @cached_property
    def _documents(self) -> list[int]:
        return sorted(set(self.documents or ()))

    @cached_property
    def _not_documents(self) -> list[int]:
        return sorted(set(self.not_documents))

    @cached_property
    def _without(self) -> list[int]:
        return sorted(set(self.without))


def _within(ascending: list[int], span: tuple[int, int]) -> list[int]:
    return ascending[bisect_left(ascending, span[0]) : bisect_right(ascending, span[1])]


ANYTHING = Selection()


def supports(node: Node) -> bool:
    """Whether a volume finds what the tree says exactly as FTS5 does. (A phrase that ends in the
    prefix of very many words can still raise Unsupported: that depends on the volume.)"""
    match node:
        case Word():
            return True
        case Not(part):
            return supports(part)
        case Or(parts):
            return all(map(supports, parts))
        case And(parts):
            return type(node) is And and all(map(supports, parts))  # Near is an And that says more
    return False


# -- words -------------------------------------------------------------------


def _cut(text: str) -> str:
    """The words of a text that is `indexable`, with spaces between them."""
    words = (
        text.encode().translate(_TO_SPACE).decode() if text.isascii() else " ".join(_tokens(text))
    )
    if len(words) > _LONGEST_WORD // 4:  # characters have up to four bytes
        return " ".join(map(_shortened, words.split()))
    return words


def _tokens(text: str) -> list[str]:
    reason = apsw.FTS5_TOKENIZE_DOCUMENT
    tokens_ = _tokenizer()(
        text.encode(), reason, None, include_offsets=False, include_colocated=False
    )
    return cast("list[str]", tokens_)


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    """As the table passage_text has it."""
    return apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "0"])


def _shortened(word: str) -> str:
    return (
        word.encode()[:_LONGEST_WORD].decode(errors="ignore")
        if len(word) > _LONGEST_WORD // 4
        else word
    )


# -- writing -----------------------------------------------------------------


def write(folder: Path, rows: Iterable[Row], stop: Callable[[], bool] | None = None) -> int:
    """Make a volume at `folder`, which must not exist, and return its number of rows.

    It is made beside its place and renamed once it is on the disk, so `folder` is whole or not
    there. Raises Stopped once `stop` says so. After a kill, `clear_unfinished` removes what is left.
    """
    if folder.exists():
        raise FileExistsError(f"There is something at {folder} already.")
    unfinished = Path(tempfile.mkdtemp(_UNFINISHED, f"{folder.name}.", folder.parent))
    try:
        about = _fill(unfinished, rows, stop or (lambda: False))
        (unfinished / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        _flush(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _flush_one(folder.parent)
    return int(about["rows"])


def clear_unfinished(parent: Path) -> None:
    """Remove what writes that were killed left in `parent`. Only while nobody is writing there."""
    for folder in parent.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, rows: Iterable[Row], stop: Callable[[], bool]) -> dict[str, Any]:
    """Write the indexes and return what `_ABOUT` says of them."""
    writers: dict[str, _Writer] = {}
    keys, documents = _Span(), _Span()
    count = 0
    try:
        for row in rows:
            if count % _ROWS_A_LOOK == 0 and stop():
                raise Stopped
            name = _HIDDEN if row.hidden else _VISIBLE
            if name not in writers:
                writers[name] = _Writer(folder / name, _HEAP[name])
            writers[name].add(row)
            keys.add(row.key)
            documents.add(row.document)
            count += 1
        if stop():
            raise Stopped
        for writer in writers.values():
            writer.finish()
    finally:
        for writer in writers.values():
            writer.close()
    files = [path for path in folder.rglob("[!.]*") if path.is_file()]
    return {
        "format": FORMAT,
        "rows": count,
        "keys": [keys.low, keys.high],
        "documents": [documents.low, documents.high],
        "indexes": sorted(writers),
        "files": {path.relative_to(folder).as_posix(): path.stat().st_size for path in files},
    }


class _Span:
    """The lowest and the highest number seen."""

    def __init__(self) -> None:
        self.low, self.high = 1, 0

    def add(self, number: int) -> None:
        if self.low > self.high:
            self.low = self.high = number
        elif number < self.low:
            self.low = number
        elif number > self.high:
            self.high = number


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    builder.add_unsigned_field("key", fast=True, indexed=True)
    builder.add_unsigned_field("document", indexed=True)
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("author", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("created_at", fast=True)
    return builder.build()


class _Writer:
    def __init__(self, folder: Path, heap: int) -> None:
        folder.mkdir()
        index = tantivy.Index(_schema(), path=str(folder))
        index.config_reader("manual")
        self._writer: tantivy.IndexWriter | None = index.writer(heap, 1)

    def add(self, row: Row) -> None:
        assert self._writer is not None
        entry = tantivy.Document()
        if row.title:
            entry.add_text(
                "text", _cut(indexed(row.title))
            )  # a value of its own, so that no phrase runs on
        entry.add_text("text", _cut(indexed(row.content)))
        entry.add_unsigned("key", row.key)
        entry.add_unsigned("document", row.document)
        if row.role is not None:
            entry.add_text("role", _shortened(row.role))
        if row.author is not None:
            entry.add_text("author", _shortened(row.author))
        if row.created_at is not None:
            entry.add_integer("created_at", row.created_at)
        self._writer.add_document(entry)

    def finish(self) -> None:
        assert self._writer is not None
        self._writer.commit()
        self._writer.wait_merging_threads()

    def close(self) -> None:
        """Let go of the folder, finished or not: this is what ends Tantivy's threads."""
        self._writer = None


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        _flush_one(path)
    _flush_one(folder)


def _flush_one(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot, and need not
        return
    file = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# -- reading -----------------------------------------------------------------


class Volume:
    """A volume, open for any number of threads. It keeps answering when its folder is removed.

    Raises NotAVolume, on opening or later, when the folder cannot be read; Unsupported for a
    tree that FTS5 must be asked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about = _about(folder)
        self.rows: int = about["rows"]
        self.keys: tuple[int, int] = tuple(about["keys"])
        """The lowest and the highest key in it."""
        self._documents: tuple[int, int] = tuple(about["documents"])
        self._names: list[str] = about["indexes"]
        self._shown = _Index(folder / _VISIBLE) if _VISIBLE in self._names else None

    @cached_property
    def _hidden(self) -> _Index | None:
        # Seldom wanted, and an open index costs a thread that looks at a file twice a second.
        return _Index(self.folder / _HIDDEN) if _HIDDEN in self._names else None

    def best(self, node: Node, selection: Selection, limit: int) -> list[tuple[int, float]]:
        """The keys of the passages that match, best first by BM25, with their scores; those that score
        the same come as they were written."""
        stale = selection.without_within(self.keys)
        hits_: list[tuple[int, float]] = []
        for index in self._indexes(selection):
            query = index.query(node, selection, self._documents)
            if query is not None:
                hits_ += index.best(query, limit + len(stale))
        if stale:
            left_out = frozenset(stale)
            hits_ = [hit for hit in hits_ if hit[0] not in left_out]
        if selection.hidden:
            hits_.sort(key=itemgetter(1), reverse=True)
        return hits_[: max(limit, 0)]

    def count(self, node: Node, selection: Selection) -> int:
        """How many passages match."""
        stale = selection.without_within(self.keys)
        total = 0
        for index in self._indexes(selection):
            query = index.query(node, selection, self._documents, scored=False)
            if query is not None:
                total += index.count(query)
                if stale:
                    total -= index.count(_all_of([query, index.any_of("key", stale, _KEYS_SINGLY)]))
        return total

    def frequency(self, terms: Sequence[str], hidden: bool) -> list[int]:
        """In how many passages each word occurs, as it was prepared. Stale passages count."""
        indexes = list(self._indexes(Selection(hidden=hidden)))
        return [sum(index.frequency(term) for index in indexes) for term in terms]

    def _indexes(self, selection: Selection) -> Iterator[_Index]:
        if self._shown is not None:
            yield self._shown
        if selection.hidden and self._hidden is not None:
            yield self._hidden


def _about(folder: Path) -> dict[str, Any]:
    """What the volume says of itself, once its files are all there and whole: reading past the end
    of a mapped file would end the process."""
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise NotAVolume(f"{folder} is a volume of another version of Recollect.")
        for name, size in about["files"].items():
            if (folder / name).stat().st_size != size:
                raise NotAVolume(
                    f"The volume {folder} is damaged: {name} has lost or gained bytes."
                )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAVolume(f"{folder} is no volume ({error}).") from error
    assert isinstance(about, dict)
    return about


class _Index:
    """One Tantivy index: how to ask it, and its answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._reading():
            index = tantivy.Index.open(str(folder))
            index.config_reader("manual")  # it never changes
            self._schema = index.schema
            self._searcher = index.searcher()
        self._size = self._searcher.num_docs

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise NotAVolume(f"The volume {self._folder} is damaged ({error}).") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise NotAVolume(f"The volume {self._folder} is damaged ({error}).") from error

    # -- answers ---

    def best(self, query: Query, limit: int) -> list[tuple[int, float]]:
        limit = min(limit, self._size)  # Tantivy makes room for as many as are asked for
        if limit <= 0:
            return []
        with self._reading():
            hits = self._searcher.search(query, limit, count=False).hits
            keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        return list(zip(cast("list[int]", keys), map(itemgetter(0), hits), strict=True))

    def count(self, query: Query) -> int:
        with self._reading():  # an aggregation, because a search always scores
            return int(self._searcher.aggregate(query, _COUNT)["n"]["doc_count"])

    def frequency(self, term: str) -> int:
        with self._reading():
            return self._searcher.doc_freq("text", _shortened(term))

    # -- questions ---

    def query(
        self, node: Node, selection: Selection, documents: tuple[int, int], scored: bool = True
    ) -> Query | None:
        """The tree and what may be found; None when nothing can be."""
        filters = []
        if selection.roles:
            filters.append(self.any_of("role", list(map(_shortened, selection.roles))))
        if selection.authors:
            filters.append(self.any_of("author", list(map(_shortened, selection.authors))))
        if selection.senders:
            senders = list(map(_shortened, selection.senders))
            filters.append(_any_of([self.any_of("role", senders), self.any_of("author", senders)]))
        if selection.after is not None or selection.before is not None:
            if (
                selection.after is not None
                and selection.before is not None
                and selection.after > selection.before
            ):
                return None
            filters.append(
                Query.range_query(
                    self._schema, "created_at", FieldType.Integer, selection.after, selection.before
                )
            )
        if selection.documents is not None:
            here = selection.documents_within(documents)
            if not here:
                return None
            filters.append(self.any_of("document", here))
        unwanted = [
            self.any_of(field, list(map(_shortened, names)))
            for field, names in (("role", selection.not_roles), ("author", selection.not_authors))
            if names
        ]
        if others := selection.not_documents_within(documents):
            unwanted.append(self.any_of("document", others))
        return _all_of(
            [self._tree(node, scored), *(Query.const_score_query(f, 0.0) for f in filters)],
            unwanted,
        )

    def any_of(self, field: str, values: Sequence[str | int], singly: int = _SINGLY) -> Query:
        if len(values) > singly:
            return Query.term_set_query(self._schema, field, values)
        return _any_of([Query.term_query(self._schema, field, v, "basic") for v in values])

    def _tree(self, node: Node, scored: bool) -> Query:
        """See `text.compiled`, which says the same to FTS5."""
        match node:
            case Word(text, prefix):
                words = _cut(indexable(text)).split()
                return self._prefix(words, scored) if prefix and words else self._words(words)
            case Not(part):
                return self._tree(part, scored)
            case Or(parts):
                return _any_of([self._tree(p, scored) for p in parts])
            case And(parts) if type(node) is And:
                required = [self._tree(p, scored) for p in parts if not isinstance(p, Not)]
                unwanted = [self._tree(p, False) for p in parts if isinstance(p, Not)]
                return _all_of(required, unwanted)
        raise Unsupported(type(node).__name__)

    def _words(self, words: list[str]) -> Query:
        if len(words) > 1:
            return Query.phrase_query(self._schema, "text", list(words))
        return (
            Query.term_query(self._schema, "text", words[0], "freq")
            if words
            else Query.empty_query()
        )

    def _prefix(self, words: list[str], scored: bool) -> Query:
        """Words of which the last is only begun."""
        *whole, begun = words
        with self._reading():
            terms = self._searcher.terms_with_prefix("text", begun, limit=_PHRASES_OF_A_PREFIX + 1)
        if whole:
            if len(terms) > _PHRASES_OF_A_PREFIX:
                raise Unsupported("a phrase that ends in the prefix of many words")
            return _any_of([self._words([*whole, word]) for word, _ in terms])
        if len(terms) <= _WORDS_OF_A_PREFIX:
            return _any_of(self._alike(terms))
        if len(begun.encode()) > _LONGEST_PATTERN:
            raise Unsupported("a long prefix of many words")
        every = Query.const_score_query(Query.regex_query(self._schema, "text", begun + ".*"), 0.0)
        return _any_of([*self._alike(terms[:_MOST_FREQUENT]), every]) if scored else every

    def _alike(self, words: list[tuple[str, int]]) -> list[Query]:
        """Words that weigh the same, however rare each is: they stand for one prefix."""
        weights = [math.log(1 + (self._size - n + 0.5) / (n + 0.5)) for _, n in words]  # as in BM25
        return [
            Query.boost_query(self._words([word]), min(weights) / weight)
            for (word, _), weight in zip(words, weights, strict=True)
        ]


def _any_of(queries: list[Query]) -> Query:
    if not queries:
        return Query.empty_query()
    return (
        queries[0]
        if len(queries) == 1
        else Query.boolean_query([(Occur.Should, q) for q in queries])
    )


def _all_of(queries: list[Query], none_of: Sequence[Query] = ()) -> Query:
    if not queries:
        return Query.empty_query()
    if len(queries) == 1 and not none_of:
        return queries[0]
    return Query.boolean_query(
        [*((Occur.Must, q) for q in queries), *((Occur.MustNot, q) for q in none_of)]
    )
