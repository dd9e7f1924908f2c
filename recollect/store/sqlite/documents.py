"""Documents and passages in SQLite: saving, merging, reading, deleting."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

import apsw

from recollect.errors import InvalidInput, NotFound
from recollect.model import Document, Filter, Passage, Summary, places
from recollect.store.base import Saved
from recollect.store.encoding import (
    DOCUMENT_TEXTS,
    PASSAGE_COLUMNS,
    digest_of,
    document_of,
    document_row,
    load,
    passage_of,
    passage_row,
)
from recollect.store.sqlite import text as index
from recollect.store.sqlite.connection import rows
from recollect.text import fold, from_micros, micros, storable

DOCUMENT_COLUMNS = (*DOCUMENT_TEXTS, "created_at", "updated_at", "metadata", "original", "partial", "shared_ids")
_INSERT_DOCUMENT = (
    f"insert into document ({', '.join(DOCUMENT_COLUMNS)}, opening, passages) "
    f"values ({', '.join(':' + c for c in DOCUMENT_COLUMNS)}, :opening, :passages)"
)
_UPDATE_DOCUMENT = (
    "update document set title = :title, namespace = :namespace, created_at = :created_at, "
    "updated_at = :updated_at, head = :head, metadata = :metadata, original = :original, "
    "partial = :partial, shared_ids = :shared_ids where key = :key"
)
_INSERT_PASSAGE = (
    f"insert into passage (key, document, receipt, shared, {', '.join(PASSAGE_COLUMNS)}) "
    f"values ({', '.join('?' * (4 + len(PASSAGE_COLUMNS)))})"
)
_UPDATE_PASSAGE = (
    f"update passage set ({', '.join(PASSAGE_COLUMNS)}) = ({', '.join('?' * len(PASSAGE_COLUMNS))}) where key = ?"
)
_SELECT_PASSAGE = f"select {', '.join(PASSAGE_COLUMNS)} from passage where key = ?"
_SELECT_PASSAGES = f"select {', '.join(PASSAGE_COLUMNS)} from passage where document = ? order by position"
_SELECT_DOCUMENT = f"select {', '.join(DOCUMENT_COLUMNS)} from document where key = ?"


# -- reading -------------------------------------------------------------------


def key_of(db: apsw.Connection, id: str) -> int:
    key: int | None = db.execute("select key from document where id = ?", (storable(id),)).get
    if key is None:
        raise NotFound(f"There is no conversation {id!r} in this library. `recollect list` shows what there is.")
    return key


def passage_key(db: apsw.Connection, id: str, passage: str) -> int:
    key: int | None = db.execute(
        "select key from passage where document = ? and id = ?", (key_of(db, id), storable(passage))
    ).get
    if key is None:
        raise NotFound(f"There is no message {passage!r} in conversation {id!r}.")
    return key


def read(db: apsw.Connection, key: int) -> Document:
    passages = tuple(passage_of(row) for row in db.execute(_SELECT_PASSAGES, (key,)))
    return replace(read_head(db, key), passages=passages)


def read_head(db: apsw.Connection, key: int) -> Document:
    """The document without its passages."""
    row = db.execute(_SELECT_DOCUMENT, (key,)).fetchone()
    assert row is not None
    return document_of(dict(zip(DOCUMENT_COLUMNS, row, strict=True)))


def raw_passage(db: apsw.Connection, key: int) -> tuple[Any, ...]:
    (row,) = rows(db, _SELECT_PASSAGE, (key,))
    return row


def summaries(db: apsw.Connection, filter: Filter, search: str, limit: int, offset: int) -> tuple[list[Summary], int]:
    where, values = index.document_conditions(filter)
    if search:
        where += " and (contains(d.title, ?) or contains(d.id, ?))"
        values += [fold(search)] * 2
    total: int = db.execute(f"select count(*) from document d where {where}", values).get
    rows = db.execute(
        f"""select d.id, d.origin, d.origin_id, d.source, d.title, d.namespace, d.created_at, d.updated_at,
          d.passages, d.metadata, d.original from document d where {where}
        order by coalesce(d.updated_at, d.created_at) desc nulls last, d.key desc limit ? offset ?""",
        (*values, limit, offset),
    )
    return [_summary(row) for row in rows], total


def _summary(row: tuple[Any, ...]) -> Summary:
    *texts, created, updated, count, metadata, original = row
    names = ("id", "origin", "origin_id", "source", "title", "namespace")
    exact = load(original)
    fields = {n: exact.get(n, t) for n, t in zip(names, texts, strict=True)}
    return Summary(**fields, created_at=from_micros(created), updated_at=from_micros(updated),
                   message_count=count, metadata=load(metadata))  # fmt: skip


def keys(db: apsw.Connection, filter: Filter) -> list[int]:
    where, values = index.document_conditions(filter)
    return [k for (k,) in db.execute(f"select d.key from document d where {where} order by d.key", values)]


# -- saving --------------------------------------------------------------------


class Saving:
    """One transaction's worth of saving: rows are collected and written together."""

    def __init__(self, db: apsw.Connection, words: index.Words, receipt: int | None) -> None:
        self._db = db
        self._words = words
        self._receipt = receipt
        self._next: int = db.execute("select passage + 1 from last_key").get
        self._rows: list[tuple[Any, ...]] = []
        self._index: list[index.Row] = []

    def save(self, document: Document) -> Saved:
        key: int | None = self._db.execute(
            "select key from document where origin = ? and origin_id = ?",
            (storable(document.origin), storable(document.origin_id)),
        ).get
        document = replace(document, passages=_distinct(document.passages))
        return self._create(document) if key is None else self._merge(key, document)

    def flush(self) -> None:
        if not self._rows:
            return
        self._db.executemany(_INSERT_PASSAGE, self._rows)
        self._db.execute("update last_key set passage = ?", (self._next - 1,))
        index.add(self._db, self._index, self._words)
        self._rows, self._index = [], []

    def _create(self, document: Document) -> Saved:
        passages, copies = self._without_copies(document, document.passages, None)
        head, order = places(passages, document.head)
        document = replace(document, id=self._free_id(document), head=head)
        opening = self._next if order else None
        self._db.execute(_INSERT_DOCUMENT, document_row(document) | {"opening": opening, "passages": len(order)})
        key = self._db.last_insert_rowid()
        title = storable(document.title)
        keys = [
            self._add(key, document.shared_ids, passages[n], position, canonical, "" if position else title)
            for position, (n, canonical) in enumerate(order)
        ]
        self._contained(key, keys, None)
        return Saved(document.id, True, new=len(keys), copies=copies)

    def _free_id(self, document: Document) -> str:
        """The origin's own id, or one that says the origin where another document has that name."""
        wanted = document.id or document.origin_id
        named = f"{document.origin}:{wanted}"
        names = chain((wanted, named), (f"{named}#{n}" for n in count(2)))
        taken = "select 1 from document where id = ?"
        return next(name for name in names if not self._db.execute(taken, (storable(name),)).get)

    def _merge(self, key: int, given: Document) -> Saved:
        self.flush()  # what this transaction wrote of the document before must be seen
        stored = read_head(self._db, key)
        known = {i: (k, digest) for k, i, digest in
                self._db.execute("select key, id, digest from passage where document = ?", (key,))}  # fmt: skip
        saved = Saved(stored.id, False)
        replaces = not given.partial and not _older(given, stored)
        unknown = tuple(p for p in given.passages if storable(p.id) not in known)
        new, saved.copies = self._without_copies(given, unknown, key)
        contained: list[int] = []
        for passage in given.passages:
            passage_key, digest = known.get(storable(passage.id), (None, b""))
            if passage_key is None:
                continue
            contained.append(passage_key)
            if digest_of(passage) == digest:
                saved.same += 1
            elif replaces:
                saved.changed += 1
                self._revise(passage_key, passage)
            else:
                saved.kept += 1
        saved.new = len(new)
        before = self._update_document(key, stored, given) if replaces else None
        saved.altered = before is not None
        if saved.new or saved.changed or before:
            contained += self._rearrange(key, stored, given, new, replaces)
        self._contained(key, contained, before)
        return saved

    def _update_document(self, key: int, stored: Document, given: Document) -> str | None:
        """Take over what the origin says of the document; returns what it said before, if that differs."""
        now = replace(given, id=stored.id, origin=stored.origin, origin_id=stored.origin_id, source=stored.source,
                      title=given.title or stored.title, head=given.head or stored.head,
                      created_at=given.created_at or stored.created_at,
                      updated_at=given.updated_at or stored.updated_at)  # fmt: skip
        old_row, new_row = document_row(stored), document_row(now)
        if old_row == new_row:
            return None
        if old_row["title"] != new_row["title"]:
            retitle(self._db, key, now.title, self._words)
        self._db.execute(_UPDATE_DOCUMENT, new_row | {"key": key})
        return json.dumps(old_row)

    def _rearrange(
        self, key: int, stored: Document, given: Document, new: Sequence[Passage], replaces: bool
    ) -> list[int]:
        """Number stored and new passages together; returns the keys of the new ones."""
        bones = stored_bones(self._db, key)
        if replaces:
            told = {b.id: b for b in map(_bone, given.passages)}
            here = bones.keys() | {storable(p.id) for p in new}  # copies are told, but live elsewhere
            bones = {i: b for i, b in told.items() if i in here} | {i: b for i, b in bones.items() if i not in told}
        else:
            bones |= {b.id: b for b in map(_bone, new)}
        head = storable(given.head) if replaces and given.head else None
        head, order = places(ordered := list(bones.values()), head or (None if new else stored.head))
        place = {ordered[n].id: (position, canonical) for position, (n, canonical) in enumerate(order)}
        added = [self._add(key, given.shared_ids, p, *place.pop(storable(p.id)), "") for p in new]
        self._db.executemany(
            "update passage set position = ?1, canonical = ?2 where id = ?4 and document = ?3 "
            "and (position <> ?1 or canonical <> ?2)",
            ((position, canonical, key, i) for i, (position, canonical) in place.items()),
        )
        self._db.execute("update document set head = ?, passages = passages + ? where key = ?", (head, len(added), key))
        self.flush()
        give_opening(self._db, key, self._words)
        return added

    def _add(self, document: int, shared: bool, passage: Passage, position: int, canonical: bool, title: str) -> int:
        key = self._next
        self._next += 1
        row = passage_row(passage, position, canonical)
        self._rows.append((key, document, self._receipt, shared, *row))
        self._index.append((key, title, row[-1]))
        return key

    def _revise(self, key: int, passage: Passage) -> None:
        """Replace a stored passage, remembering for the receipt what it said."""
        before = raw_passage(self._db, key)
        digest, position, canonical, *rest = before
        replace_passage(self._db, key, passage_row(passage, position, canonical), self._words)
        if self._receipt is not None:
            self._db.execute("insert or ignore into receipt_revision values (?, ?, ?)",
                             (self._receipt, key, json.dumps([digest.hex(), position, canonical, *rest])))  # fmt: skip

    def _without_copies(
        self, document: Document, passages: Sequence[Passage], key: int | None
    ) -> tuple[Sequence[Passage], int]:
        if not document.shared_ids or not passages:
            return passages, 0
        self.flush()
        own = [p for p in passages if not self._db.execute(
            "select 1 from passage p join document d on d.key = p.document "
            "where p.shared and p.id = ? and d.origin = ? and d.key is not ?", (storable(p.id), document.origin, key),
        ).get]  # fmt: skip
        return own, len(passages) - len(own)

    def _contained(self, document: int, passages: Iterable[int], before: str | None) -> None:
        if self._receipt is None:
            return
        found = self._db.execute("select runs, before from receipt_document where receipt = ? and document = ?",
                                 (self._receipt, document)).fetchone()  # fmt: skip
        earlier, first = (found[0], found[1]) if found else ("[]", None)
        self._db.execute(
            "insert or replace into receipt_document values (?, ?, ?, ?)",
            (self._receipt, document, dump_runs({*passages, *load_runs(earlier)}), first or before),
        )


def _distinct(passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
    """One passage an id: the last one said wins, at the place of the first."""
    ids = {p.id for p in passages}
    if len(ids) == len(passages) and "".join(ids).isascii():
        return passages
    found: dict[str, Passage] = {}
    for passage in passages:
        found[storable(passage.id)] = passage
    return passages if len(found) == len(passages) else tuple(found.values())


def _older(given: Document, stored: Document) -> bool:
    return bool(given.updated_at and stored.updated_at and given.updated_at < stored.updated_at)


def load_runs(text: str) -> set[int]:
    return {key for first, last in json.loads(text) for key in range(first, last + 1)}


def dump_runs(keys: set[int]) -> str:
    """A set of keys as [first, last] runs: an import's keys follow each other, so this stays small."""
    runs: list[list[int]] = []
    for key in sorted(keys):
        if runs and runs[-1][1] == key - 1:
            runs[-1][1] = key
        else:
            runs.append([key, key])
    return json.dumps(runs)


def _bone(passage: Passage) -> Passage:
    """What places need of a passage, with ids as they are stored."""
    parent = None if passage.parent is None else storable(passage.parent)
    return Passage(storable(passage.id), None, "", parent=parent, created_at=passage.created_at)


def stored_bones(db: apsw.Connection, key: int) -> dict[str, Passage]:
    rows = db.execute("select id, parent, created_at from passage where document = ? order by position", (key,))
    return {i: Passage(i, None, "", parent=parent, created_at=from_micros(at)) for i, parent, at in rows}


# -- one at a time -------------------------------------------------------------


def append(db: apsw.Connection, id: str, passage: Passage, words: index.Words) -> bool:
    key = key_of(db, id)
    stored = db.execute("select digest from passage where document = ? and id = ?", (key, storable(passage.id))).get
    head, next_position = db.execute(
        "select head, (select coalesce(max(position), -1) + 1 from passage where document = ?1) "
        "from document where key = ?1", (key,),
    ).fetchone() or (None, 0)  # fmt: skip
    if stored is not None:
        return _same_or_refuse(db, key, passage, stored)
    follows = passage.parent is None or storable(passage.parent) == head
    if (
        not follows
        and not db.execute(
            "select 1 from passage where document = ? and id = ?", (key, storable(passage.parent or ""))
        ).get
    ):
        raise NotFound(f"Message {passage.parent!r}, named as the parent, is not in conversation {id!r}.")
    at = passage.created_at or datetime.now(UTC)
    row = passage_row(passage._replace(parent=passage.parent or head, created_at=at), next_position)
    passage_key: int = db.execute("update last_key set passage = passage + 1 returning passage").get
    db.execute(_INSERT_PASSAGE, (passage_key, key, None, False, *row))
    index.add(db, [(passage_key, "", row[-1])], words)
    db.execute(
        "update document set head = ?1, passages = passages + 1, updated_at = max(coalesce(updated_at, ?2), ?2) "
        "where key = ?3", (storable(passage.id), micros(at), key),
    )  # fmt: skip
    if not follows:
        _mark_path(db, key, storable(passage.id))
    if next_position == 0:
        give_opening(db, key, words)
    return True


def _same_or_refuse(db: apsw.Connection, key: int, passage: Passage, digest: bytes) -> bool:
    """A message sent again is the same where it says nothing else; what was left out then counts as equal."""
    parent, at = db.execute(
        "select parent, created_at from passage where id = ? and document = ?", (storable(passage.id), key)
    ).fetchone() or (None, None)
    again = passage._replace(parent=passage.parent or parent, created_at=passage.created_at or from_micros(at))
    if digest_of(again) == digest:
        return False
    raise InvalidInput(f"Message id {passage.id!r} is already used in this conversation for another message.")


def _mark_path(db: apsw.Connection, key: int, head: str) -> None:
    db.execute(
        """with recursive path(id, parent) as (
          select id, parent from passage where document = ?1 and id = ?2
          union select p.id, p.parent from passage p join path on p.id = path.parent where p.document = ?1)
        update passage set canonical = id in (select id from path)
        where document = ?1 and canonical <> (id in (select id from path))""",
        (key, head),
    )


def rename(db: apsw.Connection, key: int, title: str, words: index.Words) -> None:
    """A person's own title is a change made now, so that an export of before does not take it back."""
    retitle(db, key, title, words)
    now = micros(datetime.now(UTC))
    db.execute("update document set updated_at = max(coalesce(updated_at, ?1), ?1) where key = ?2", (now, key))


def retitle(db: apsw.Connection, key: int, title: str, words: index.Words) -> None:
    opening, old, content = db.execute(
        "select d.opening, d.title, p.content from document d left join passage p on p.key = d.opening where d.key = ?",
        (key,),
    ).fetchone() or (None, "", "")
    clean = storable(title)
    db.execute("update document set title = ? where key = ?", (clean, key))
    if opening is not None:
        index.remove(db, [(opening, old, content)], words)
        index.add(db, [(opening, clean, content)], words)


def give_opening(db: apsw.Connection, key: int, words: index.Words) -> None:
    """Let the first passage carry the title in the index, if none does."""
    title, opening = db.execute("select title, opening from document where key = ?", (key,)).fetchone() or ("", None)
    if opening is not None:
        return
    first = db.execute(
        "select key, content from passage where document = ? order by position limit 1", (key,)
    ).fetchone()
    if first is not None:
        db.execute("update document set opening = ? where key = ?", (first[0], key))
        index.remove(db, [(first[0], "", first[1])], words)
        index.add(db, [(first[0], title, first[1])], words)


def replace_passage(db: apsw.Connection, key: int, row: tuple[Any, ...], words: index.Words) -> None:
    ((_, title, content),) = _in_index(db, [key])
    db.execute(_UPDATE_PASSAGE, (*row, key))
    if row[-1] != content:
        index.remove(db, [(key, title, content)], words)
        index.add(db, [(key, title, row[-1])], words)


def _in_index(db: apsw.Connection, passages: Sequence[int]) -> Iterator[index.Row]:
    """The passages as they stand in the index."""
    for start in range(0, len(passages), 1_000):
        yield from rows(
            db,
            "select p.key, case when d.opening = p.key then d.title else '' end, p.content "
            "from passage p join document d on d.key = p.document where p.key in (select value from json_each(?))",
            (json.dumps(passages[start : start + 1_000]),),
        )


def restore(db: apsw.Connection, key: int, row: dict[str, Any], words: index.Words) -> None:
    """Give a document back what it said before an import."""
    if row["title"] != db.execute("select title from document where key = ?", (key,)).get:
        retitle(db, key, row["title"], words)
    db.execute(_UPDATE_DOCUMENT, row | {"key": key})


def replace_order(db: apsw.Connection, key: int, words: index.Words) -> None:
    """Number the passages anew after some were removed."""
    bones = list(stored_bones(db, key).values())
    head, order = places(bones, db.execute("select head from document where key = ?", (key,)).get)
    db.executemany(
        "update passage set position = ?, canonical = ? where document = ? and id = ?",
        ((position, canonical, key, bones[n].id) for position, (n, canonical) in enumerate(order)),
    )
    db.execute("update document set head = ? where key = ?", (head, key))
    give_opening(db, key, words)


def remove_passages(db: apsw.Connection, passages: Mapping[int, Sequence[int]], words: index.Words) -> None:
    """Delete passages of some documents: from the truth and from the index."""
    keys = [key for some in passages.values() for key in some]
    index.remove_some_or_many(db, _in_index(db, keys), len(keys), words)
    db.executemany("delete from passage where key = ?", ((key,) for key in keys))
    db.executemany(
        "update document set passages = (select count(*) from passage where document = ?1), "
        "opening = (select key from passage where key = opening) where key = ?1",
        ((document,) for document in passages),
    )


def delete(db: apsw.Connection, document: int, words: index.Words) -> None:
    passages = [k for (k,) in db.execute("select key from passage where document = ?", (document,))]
    remove_passages(db, {document: passages}, words)
    db.execute("delete from document where key = ?", (document,))
