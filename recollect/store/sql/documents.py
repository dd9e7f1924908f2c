"""Documents and passages: saving, merging, reading, deleting, the same in every database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.query import Word
from recollect.language.text import from_micros, identifier, micros, storable, truncate
from recollect.model.documents import Document, Passage, Position, Summary, places
from recollect.model.kinds import OBSERVATIONS
from recollect.model.search import Filter
from recollect.store.errors import missing_document, missing_passage
from recollect.store.sql import rewriting, selection
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import (
    DOCUMENT_TEXTS,
    PASSAGE_COLUMNS,
    digest_of,
    document_of,
    document_row,
    exact_texts,
    load,
    passage_of,
    passage_row,
)
from recollect.store.sql.passages import (
    COLUMNS,
    change_document,
    count_up,
    give_opening,
    remove_passages,
    renumber,
    replace_order,
    replace_passage,
    stored_bones,
)
from recollect.store.values import Appended, SaveResult

DOCUMENT_COLUMNS = (
    *DOCUMENT_TEXTS,
    "created_at",
    "updated_at",
    "metadata",
    "original",
    "partial",
    "shared_ids",
    "version",
)
_NO_CHANGE = (
    "head",
    "updated_at",
)  # of what is rewritten: where nothing else differs, it is the same
_SELECT_PASSAGE = f"select {', '.join(PASSAGE_COLUMNS)} from passage where key = ?"
_SELECT_PASSAGES = (
    f"select {', '.join(PASSAGE_COLUMNS)} from passage where document = ? order by position"
)
_SELECT_DOCUMENT = f"select {', '.join(DOCUMENT_COLUMNS)} from document where key = ?"


# -- reading -------------------------------------------------------------------


def key_of(db: Database, id: str) -> int:
    key: int | None = db.get("select key from document where id = ?", (identifier(id),))
    if key is None:
        raise missing_document(id)
    return key


def passage_key(db: Database, id: str, passage: str) -> int:
    key: int | None = db.get(
        "select key from passage where document = ? and id = ?",
        (key_of(db, id), identifier(passage)),
    )
    if key is None:
        raise missing_passage(id, passage)
    return key


def read(db: Database, key: int) -> Document:
    passages = tuple(passage_of(row) for row in db.rows(_SELECT_PASSAGES, (key,)))
    return replace(read_header(db, key), passages=passages)


def read_header(db: Database, key: int) -> Document:
    """The document without its passages. Raises NotFound."""
    found = db.rows(_SELECT_DOCUMENT, (key,))
    if not found:
        raise NotFound("The conversation has been deleted.")
    return document_of(dict(zip(DOCUMENT_COLUMNS, found[0], strict=True)))


def find_id(db: Database, source: str, source_id: str) -> str | None:
    found = db.rows(
        "select id, original from document where source = ? and source_id = ?",
        (identifier(source), identifier(source_id)),
    )
    return load(found[0][1]).get("id", found[0][0]) if found else None


def positions(db: Database, id: str) -> list[Position]:
    rows = db.rows(
        "select key, id, parent, position, canonical from passage where document = ? order by position",
        (key_of(db, id),),
    )
    return [
        Position(key, i, parent, position, bool(canonical))
        for key, i, parent, position, canonical in rows
    ]


def passages_by_key(db: Database, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
    listed, value = db.among(list(keys))
    rows = db.rows(
        f"select p.key, d.id, {', '.join(f'p.{c}' for c in PASSAGE_COLUMNS)} "
        f"from passage p join document d on d.key = p.document where p.key in ({listed})",
        (value,),
    )
    return {key: (document, passage_of(tuple(row))) for key, document, *row in rows}


def change_times(db: Database, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
    listed, value = db.among(list(keys))
    rows = db.rows(
        "select p.key, d.id, coalesce(case when d.kind = 'conversation' then p.created_at end, "
        "d.updated_at, d.created_at) "
        f"from passage p join document d on d.key = p.document where p.key in ({listed})",
        (value,),
    )
    return [(key, document, from_micros(at)) for key, document, at in rows]


def passage_page(db: Database, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
    key = key_of(db, id)
    rows = db.rows(
        f"select {', '.join(PASSAGE_COLUMNS)} from passage where document = ? and position >= ? "
        "order by position limit ?",
        (key, position, limit),
    )
    return [passage_of(row) for row in rows], db.get(
        "select passages from document where key = ?", (key,)
    )


def documents_containing(
    db: Database, source: str, passages: Sequence[str]
) -> list[tuple[str, str]]:
    if not passages:
        return []
    listed, value = db.among([identifier(p) for p in passages])
    return [
        (document, passage)
        for document, passage in db.rows(
            "select d.id, p.id from passage p join document d on d.key = p.document "
            f"where p.shared and p.id in ({listed}) and d.source = ? order by d.updated_at desc, d.key desc",
            (value, source),
        )
    ]


def title_matches(db: Database, words: Sequence[Word]) -> list[int]:
    found: dict[int, None] = {}
    for word in dict.fromkeys(words):
        where, values = db.conditions(Filter(titles=(word.text + "*" * word.prefix,)))
        rows = db.rows(
            f"select d.opening from document d where d.opening is not null and {where}", values
        )
        found |= dict.fromkeys(key for (key,) in rows)
    return list(found)


def summary(db: Database, id: str) -> Summary:
    key_of(db, id)  # so that what is missing is told
    ((only,), _) = summaries(db, Filter(conversations=(identifier(id),)), "", 1, 0)
    return only


def summaries(
    db: Database, filter: Filter, search: str, limit: int, offset: int
) -> tuple[list[Summary], int]:
    where, values = db.conditions(selection.exact(db, filter), search)
    total: int = db.get(f"select count(*) from document d where {where}", values)
    rows = db.rows(
        f"""select d.id, d.source, d.source_id, d.kind, d.title, d.project, d.created_at, d.updated_at,
          d.passages, d.metadata, d.original, d.version from document d where {where}
        order by coalesce(d.updated_at, d.created_at) desc nulls last, d.key desc limit ? offset ?""",
        (*values, limit, offset),
    )
    return [_summary(row) for row in rows], total


def _summary(row: tuple[Any, ...]) -> Summary:
    *texts, created, updated, count, metadata, original, version = row
    names = ("id", "source", "source_id", "kind", "title", "project")
    exact = exact_texts(original, names)
    fields = {n: exact.get(n, t) for n, t in zip(names, texts, strict=True)}
    return Summary(
        **fields,
        created_at=from_micros(created),
        updated_at=from_micros(updated),
        message_count=count,
        metadata=load(metadata),
        version=version,
    )


def keys(db: Database, filter: Filter) -> list[int]:
    where, values = db.conditions(selection.exact(db, filter))
    return [
        k for (k,) in db.rows(f"select d.key from document d where {where} order by d.key", values)
    ]


# -- saving --------------------------------------------------------------------


def save(
    db: Database,
    index: TextIndex,
    documents: Sequence[Document],
    receipt: int | None,
    index_ids: bool = False,
) -> list[SaveResult]:
    """See Store.save."""
    if not documents:
        return []
    saving = _Saving(db, index, documents, receipt, index_ids)
    saved = [saving.save(d) for d in documents]
    saving.flush()
    return saved


class _Saving:
    """One transaction's worth of saving: what is there is asked at once, rows are collected and
    written together."""

    def __init__(
        self,
        db: Database,
        index: TextIndex,
        documents: Sequence[Document],
        receipt: int | None,
        index_ids: bool,
    ) -> None:
        self._index_ids = index_ids
        self._db = db
        self._index = index
        self._receipt = receipt
        self._next: int = db.get("select passage + 1 from last_key")
        self._next_document: int = db.get("select coalesce(max(key), 0) + 1 from document")
        self._known = self._stored(documents)
        self._taken = self._named(documents)
        self._shared: dict[
            tuple[str, str], int
        ] = {}  # ids that this transaction added: (source, id) and document
        self._documents: list[dict[str, Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._indexed: list[IndexRow] = []
        self._brought: list[tuple[Any, ...]] = []

    def _stored(self, documents: Iterable[Document]) -> dict[tuple[str, str], int]:
        by_source: dict[str, list[str]] = {}
        for document in documents:
            by_source.setdefault(identifier(document.source), []).append(
                identifier(document.source_id)
            )
        found: dict[tuple[str, str], int] = {}
        for source, ids in by_source.items():
            listed, value = self._db.among(ids)
            rows = self._db.rows(
                f"select source_id, key from document where source = ? and source_id in ({listed})",
                (source, value),
            )
            found |= {(source, id_): key for id_, key in rows}
        return found

    def _named(self, documents: Iterable[Document]) -> set[str]:
        """The names that documents would like to have, and others have."""
        listed, value = self._db.among(
            [identifier(name) for d in documents for name in _first_names(d)]
        )
        return {
            name
            for (name,) in self._db.rows(
                f"select id from document where id in ({listed})", (value,)
            )
        }

    def save(self, document: Document) -> SaveResult:
        key = self._known.get((identifier(document.source), identifier(document.source_id)))
        document = replace(document, passages=_distinct(document.passages))
        return self._create(document) if key is None else self._merge(key, document)

    def flush(self) -> None:
        if self._documents:
            columns = tuple(self._documents[0])
            self._db.insert("document", columns, [tuple(row.values()) for row in self._documents])
        if self._rows:
            self._db.insert("passage", COLUMNS, self._rows)
            self._db.run("update last_key set passage = ?", (self._next - 1,))
            self._index.add(self._indexed)
        if self._brought:
            self._db.insert(
                "receipt_document", ("receipt", "document", "runs", "before"), self._brought
            )
        self._documents, self._rows, self._indexed, self._brought = [], [], [], []

    def _create(self, document: Document) -> SaveResult:
        passages, copies = self._without_copies(document, document.passages, 0)
        head, order = places(passages, document.head)
        document = replace(document, id=self._free_id(document), head=head)
        key = self._next_document
        self._next_document += 1
        self._known[identifier(document.source), identifier(document.source_id)] = key
        row = document_row(document)
        opening = self._next if order else None
        self._documents.append(
            {"key": key, **row, **self._db.derived(row), "opening": opening, "passages": len(order)}
        )
        title = storable(document.title)
        keys = [
            self._add(key, document, passages[n], position, canonical, "" if position else title)
            for position, (n, canonical) in enumerate(order)
        ]
        if self._receipt is not None:
            before = rewriting.NEW if rewriting.is_rewritten(document.kind) else None
            self._brought.append((self._receipt, key, dump_runs(set(keys)), before))
        return SaveResult(document.id, True, new=len(keys), copies=copies)

    def _free_id(self, document: Document) -> str:
        """The source's own id, or one that says the source where another document has that name."""
        first = _first_names(document)
        more = (f"{first[-1]}#{n}" for n in count(2))
        name = next(
            n for n in chain(first, more) if not self._is_taken(identifier(n), n not in first)
        )
        self._taken.add(identifier(name))
        return name

    def _is_taken(self, name: str, ask: bool) -> bool:
        return name in self._taken or (
            ask and self._db.get("select 1 from document where id = ?", (name,)) is not None
        )

    def _merge(self, key: int, given: Document) -> SaveResult:
        self.flush()  # what this transaction wrote of the document before must be seen
        stored = read_header(self._db, key)
        if rewriting.is_rewritten(stored.kind, given.kind):
            return self._replace(
                key, stored, _begun(given, stored), not given.partial and not _older(given, stored)
            )
        known = {
            i: (k, digest)
            for k, i, digest in self._db.rows(
                "select key, id, digest from passage where document = ?", (key,)
            )
        }
        saved = SaveResult(stored.id, False)
        replaces = not given.partial and not _older(given, stored)
        unknown = tuple(p for p in given.passages if identifier(p.id) not in known)
        new, saved.copies = self._without_copies(given, unknown, key)
        contained: list[int] = []
        for passage in given.passages:
            passage_key, digest = known.get(identifier(passage.id), (None, b""))
            if passage_key is None:
                continue
            contained.append(passage_key)
            if digest_of(passage) == digest:
                saved.same += 1
            elif replaces:
                saved.changed += 1
                self._revise(passage_key, passage)
            else:
                saved.outdated += 1
        saved.new = len(new)
        before = self._update_document(key, stored, given) if replaces else None
        saved.document_changed = before is not None
        if saved.new or saved.changed or before:
            contained += self._rearrange(key, stored, given, new, replaces)
            count_up(self._db, key)
        self._contained(key, contained, before)
        return saved

    def rewrite(self, key: int, given: Document) -> SaveResult:
        """See Store.rewrite."""
        stored = read_header(self._db, key)
        given = replace(given, passages=_distinct(given.passages))
        now = datetime.now(UTC)
        if (
            given.updated_at is None
            or _older(given, stored)
            or given.updated_at == stored.updated_at
        ):
            given = replace(given, updated_at=max(stored.updated_at or now, now))
        return self._replace(key, stored, given, True)

    def _replace(self, key: int, stored: Document, given: Document, replaces: bool) -> SaveResult:
        """Let the document have what is given and nothing else, remembering for the receipt what it was."""
        saved = SaveResult(stored.id, False)
        if not replaces:
            known = {
                digest: k
                for k, digest in self._db.rows(
                    "select key, digest from passage where document = ?", (key,)
                )
            }
            saved.same = sum(digest_of(passage) in known for passage in given.passages)
            saved.outdated = len(given.passages) - saved.same
            self._contained(key, known.values(), None)
            return saved
        before = rewriting.kept(read(self._db, key)) if self._receipt is not None else None
        head, rows = rewriting.rows_of(given)
        done = rewriting.put(
            self._db, self._index, key, rows, self._receipt, given.shared_ids or self._index_ids
        )
        self._next = self._db.get("select passage + 1 from last_key")
        now = replace(
            given,
            id=stored.id,
            source=stored.source,
            source_id=stored.source_id,
            kind=stored.kind,
            title=given.title or stored.title,
            head=head if done else stored.head,
            created_at=given.created_at or stored.created_at,
            updated_at=given.updated_at or stored.updated_at,
        )
        old_row, new_row = document_row(stored), document_row(now)
        saved.document_changed = any(
            old_row[name] != new_row[name] for name in new_row if name not in _NO_CHANGE
        )
        saved.new, saved.same, saved.changed, saved.removed = (
            done.new,
            done.same,
            done.changed,
            done.removed,
        )
        if done or saved.document_changed:
            change_document(self._db, key, new_row, self._index)
            count_up(self._db, key)
            if self._receipt is None:
                rewriting.claim(self._db, key)
        self._contained(key, done.keys, before if done or saved.document_changed else None)
        return saved

    def _update_document(self, key: int, stored: Document, given: Document) -> str | None:
        """Take over what the source says of the document; returns what it said before, if that differs."""
        now = replace(
            given,
            id=stored.id,
            source=stored.source,
            source_id=stored.source_id,
            kind=stored.kind,
            title=given.title or stored.title,
            head=given.head or stored.head,
            metadata=_with_own(given.metadata, stored.metadata),
            created_at=given.created_at or stored.created_at,
            updated_at=given.updated_at or stored.updated_at,
        )
        old_row, new_row = document_row(stored), document_row(now)
        if old_row == new_row:
            return None
        change_document(self._db, key, new_row, self._index)
        return json.dumps(old_row)

    def _rearrange(
        self, key: int, stored: Document, given: Document, new: Sequence[Passage], replaces: bool
    ) -> list[int]:
        """Number stored and new passages together; returns the keys of the new ones."""
        bones = stored_bones(self._db, key)
        placed = {i: (b.position, b.canonical) for i, b in bones.items()}
        if replaces:
            told = {b.id: b for b in map(_bone, given.passages)}
            here = bones.keys() | {
                identifier(p.id) for p in new
            }  # copies are told, but live elsewhere
            bones = {i: b for i, b in told.items() if i in here} | {
                i: b for i, b in bones.items() if i not in told
            }
        else:
            bones |= {b.id: b for b in map(_bone, new)}
        head = identifier(given.head) if replaces and given.head else None
        head, order = places(
            ordered := list(bones.values()), head or (None if new else stored.head)
        )
        place = {
            ordered[n].id: (position, canonical) for position, (n, canonical) in enumerate(order)
        }
        added = [self._add(key, given, p, *place[identifier(p.id)], "") for p in new]
        renumber(self._db, key, {i: at for i, at in place.items() if placed.get(i, at) != at})
        self._db.run(
            "update document set head = ?, passages = passages + ? where key = ?",
            (head, len(added), key),
        )
        self.flush()
        give_opening(self._db, key, self._index)
        return added

    def _add(
        self,
        key: int,
        document: Document,
        passage: Passage,
        position: int,
        canonical: bool,
        title: str,
    ) -> int:
        passage_key = self._next
        self._next += 1
        row = passage_row(passage, position, canonical)
        self._rows.append(
            (passage_key, key, self._receipt, document.shared_ids or self._index_ids, *row)
        )
        self._indexed.append((passage_key, title, row[-1]))
        if document.shared_ids:
            self._shared[document.source, identifier(passage.id)] = key
        return passage_key

    def _revise(self, key: int, passage: Passage) -> None:
        """Replace a stored passage, remembering for the receipt what it said."""
        (before,) = self._db.rows(_SELECT_PASSAGE, (key,))
        digest, position, canonical, *rest = before
        replace_passage(self._db, key, passage_row(passage, position, canonical), self._index)
        if self._receipt is not None:
            self._db.run(
                "insert into receipt_revision (receipt, passage, before) values (?, ?, ?) "
                "on conflict do nothing",
                (self._receipt, key, json.dumps([digest.hex(), position, canonical, *rest])),
            )

    def _without_copies(
        self, document: Document, passages: Sequence[Passage], key: int
    ) -> tuple[Sequence[Passage], int]:
        if not document.shared_ids or not passages:
            return passages, 0
        listed, value = self._db.among([identifier(p.id) for p in passages])
        elsewhere = {
            i
            for (i,) in self._db.rows(
                "select p.id from passage p join document d on d.key = p.document "
                f"where p.shared and p.id in ({listed}) and d.source = ? and d.key <> ?",
                (value, document.source, key),
            )
        }
        own = [
            p
            for p in passages
            if identifier(p.id) not in elsewhere
            and self._shared.get((document.source, identifier(p.id)), key) == key
        ]
        return own, len(passages) - len(own)

    def _contained(self, document: int, passages: Iterable[int], before: str | None) -> None:
        if self._receipt is None:
            return
        where = "from receipt_document where receipt = ? and document = ?"
        found = self._db.rows(f"select runs, before {where}", (self._receipt, document))
        earlier, first = found[0] if found else ("[]", None)
        self._db.run(f"delete {where}", (self._receipt, document))
        self._db.insert(
            "receipt_document",
            ("receipt", "document", "runs", "before"),
            [
                (
                    self._receipt,
                    document,
                    dump_runs({*passages, *load_runs(earlier)}),
                    first or before,
                )
            ],
        )


def _with_own(given: Mapping[str, Any], stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tags, and what must not be observed again, are a person's own: they stay unless the source has some itself."""
    own = {
        name: stored[name] for name in ("tags", "forgotten") if name in stored and name not in given
    }
    return {**given, **own} if own else given


def _first_names(document: Document) -> tuple[str, str]:
    wanted = document.id or document.source_id
    return wanted, f"{document.source}:{wanted}"


def _distinct(passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
    """One passage an id: the last one said wins, at the place of the first."""
    ids = {p.id for p in passages}
    if len(ids) == len(passages) and "".join(ids).isascii():
        return passages
    found: dict[str, Passage] = {}
    for passage in passages:
        found[identifier(passage.id)] = passage
    return passages if len(found) == len(passages) else tuple(found.values())


def _begun(given: Document, stored: Document) -> Document:
    """Nothing begins later than it was known to: a file that was only touched is not a new one."""
    if not (given.created_at and stored.created_at and given.created_at > stored.created_at):
        return given
    kept = stored.created_at
    passages = tuple(
        p._replace(created_at=kept) if p.created_at == given.created_at else p
        for p in given.passages
    )
    return replace(given, created_at=kept, passages=passages)


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
    parent = None if passage.parent is None else identifier(passage.parent)
    return Passage(identifier(passage.id), None, "", parent=parent, created_at=passage.created_at)


def rewrite(
    db: Database, index: TextIndex, id: str, given: Document, version: int | None
) -> SaveResult:
    """See Store.rewrite."""
    key = key_of(db, id)
    stored = read_header(db, key)
    if not rewriting.is_rewritten(stored.kind):
        raise InvalidInput(
            f"{truncate(id, 80)!r} is a conversation: messages are added to it, it is not rewritten."
        )
    if version is not None and version != stored.version:
        raise Conflict(
            f"{truncate(id, 80)!r} was changed meanwhile: it is version {stored.version} now, not {version}. "
            "Read it again, and make the change in what it says now."
        )
    return _Saving(db, index, [given], None, False).rewrite(key, given)


# -- one at a time -------------------------------------------------------------


def append(db: Database, id: str, passage: Passage, index: TextIndex) -> Appended:
    """See Store.append."""
    placed = _append(db, id, passage, index)
    if placed:
        _grown(db, id)
    return placed


def _append(
    db: Database, id: str, passage: Passage, index: TextIndex, shared: bool = False
) -> Appended:
    found = db.rows(
        "select key, head, updated_at, passages from document where id = ?", (identifier(id),)
    )
    key, head, updated, position = found[0] if found else (key_of(db, id), None, 0, 0)
    there = db.rows(
        "select id, key from passage where document = ? and id in (?, ?)",
        (key, identifier(passage.id), identifier(passage.parent or "")),
    )
    stored: dict[str, int] = dict(there)
    if (same := stored.get(identifier(passage.id))) is not None:
        return _same_or_refuse(passage, db.rows(_SELECT_PASSAGE, (same,))[0])
    follows = passage.parent is None or identifier(passage.parent) == head
    if not follows and identifier(passage.parent or "") not in stored:
        raise NotFound(
            f"Message {truncate(passage.parent or '', 80)!r}, named as the parent, "
            f"is not in conversation {truncate(id, 80)!r}."
        )
    at = passage.created_at or datetime.now(UTC)
    changed = max(from_micros(updated) or at, at)
    row = passage_row(passage._replace(parent=passage.parent or head, created_at=at), position)
    passage_key: int = db.get("update last_key set passage = passage + 1 returning passage")
    db.insert("passage", COLUMNS, [(passage_key, key, None, shared, *row)])
    index.add([(passage_key, "", row[-1])])
    db.run(
        "update document set head = ?, passages = passages + 1, updated_at = ? where key = ?",
        (identifier(passage.id), micros(changed), key),
    )
    if not follows:
        _mark_path(db, key, identifier(passage.id))
    if position == 0:
        give_opening(db, key, index)
    return Appended(position, True)


def extend(db: Database, id: str, passages: Sequence[Passage], index: TextIndex) -> int:
    """See Store.extend."""
    key = key_of(db, id)
    if not passages:
        return 0
    listed, value = db.among([identifier(p.id) for p in passages])
    known = {
        i
        for (i,) in db.rows(
            f"select id from passage where document = ? and id in ({listed})", (key, value)
        )
    }
    new = 0
    for passage in passages:
        if identifier(passage.id) not in known:
            known.add(identifier(passage.id))
            _append(db, id, passage, index, shared=True)
            new += 1
    if new:
        _grown(db, id)
    return new


def _grown(db: Database, id: str) -> None:
    ((key, kind),) = db.rows(
        "update document set version = version + 1 where id = ? returning key, kind",
        (identifier(id),),
    )
    if rewriting.is_rewritten(kind):
        rewriting.claim(db, key)


def _same_or_refuse(passage: Passage, row: tuple[Any, ...]) -> Appended:
    """A message sent again is the same where it says nothing else; what was left out then counts as equal."""
    stored = passage_of(row)
    again = passage._replace(
        parent=passage.parent or stored.parent, created_at=passage.created_at or stored.created_at
    )
    if digest_of(again) == row[0]:
        return Appended(stored.position, False)
    raise Conflict(
        f"Message id {truncate(passage.id, 80)!r} is already used in this conversation for another one."
    )


def _mark_path(db: Database, key: int, head: str) -> None:
    """The way from the root to the head is canonical, and nothing else."""
    bones = stored_bones(db, key)
    path = set()
    walk: str | None = head
    while walk is not None and walk in bones and walk not in path:
        path.add(walk)
        walk = bones[walk].parent
    renumber(
        db,
        key,
        {i: (b.position, i in path) for i, b in bones.items() if b.canonical != (i in path)},
    )


def update(
    db: Database,
    id: str,
    index: TextIndex,
    title: str | None,
    project: str | None,
    metadata: Mapping[str, Any] | None,
) -> None:
    """See Store.update."""
    key = key_of(db, id)
    head = read_header(db, key)
    now = datetime.now(UTC)
    said = {
        k: v
        for k, v in {**head.metadata, **(metadata or {})}.items()
        if v is not None or k not in (metadata or {})
    }
    amended = replace(
        head,
        title=head.title if title is None else title,
        project=project or head.project,
        metadata=said,
        updated_at=max(head.updated_at or now, now),
    )
    change_document(db, key, document_row(amended), index)
    count_up(db, key)


def revise(db: Database, id: str, change: Callable[[Document], Document], index: TextIndex) -> int:
    """See Store.revise."""
    key = key_of(db, id)
    stored = read(db, key)
    given = change(stored)
    keys = dict(db.rows("select id, key from passage where document = ?", (key,)))
    changed = 0
    for before, after in zip(stored.passages, given.passages, strict=True):
        if after is not before and (row := passage_row(after, before.position, before.canonical))[
            0
        ] != digest_of(before):
            replace_passage(db, keys[identifier(before.id)], row, index)
            changed += 1
    now = replace(stored, title=given.title, metadata=given.metadata)
    if not changed and now == stored:
        return 0
    change_document(db, key, document_row(now), index)
    count_up(db, key)
    forget_observations(db, key, index)
    rewriting.forget(db, key)
    return changed


def delete_passage(db: Database, id: str, passage: str, index: TextIndex) -> Passage:
    """See Store.delete_passage."""
    key, there = key_of(db, id), passage_key(db, id, passage)
    (row,) = db.rows(_SELECT_PASSAGE, (there,))
    removed = passage_of(row)
    if db.get(
        "select 1 from passage where document = ? and parent = ? limit 1",
        (key, identifier(passage)),
    ):
        raise Conflict(f"Message {truncate(passage, 80)!r} has answers: remove these first.")
    forget_observations(db, key, index)
    db.run(
        "update document set head = ? where key = ? and head = ?",
        (removed.parent and identifier(removed.parent), key, identifier(passage)),
    )
    remove_passages(db, {key: [there]}, index)
    replace_order(db, key, index)
    count_up(db, key)
    return removed


def pop(db: Database, id: str, index: TextIndex) -> Document:
    """See Store.pop."""
    key = key_of(db, id)
    document = read(db, key)
    delete(db, key, index)
    return document


def delete(db: Database, document: int, index: TextIndex) -> None:
    """Remove a document, and what was observed in it."""
    forget_observations(db, document, index)
    _remove(db, document, index)


def forget_observations(db: Database, conversation: int, index: TextIndex) -> None:
    """Remove what was observed in a conversation; what is left of it is observed anew."""
    for (key,) in db.rows(
        "select o.key from document o join document d on d.id = o.source_id where d.key = ? and o.source = ?",
        (conversation, OBSERVATIONS),
    ):
        _remove(db, key, index)
    db.run("update document set observed = 0 where key = ? and observed <> 0", (conversation,))


def _remove(db: Database, document: int, index: TextIndex) -> None:
    passages = [k for (k,) in db.rows("select key from passage where document = ?", (document,))]
    remove_passages(db, {document: passages}, index)
    db.run("delete from document where key = ?", (document,))
