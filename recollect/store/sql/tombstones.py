"""Tombstones: hashes of what was forgotten, so that it is not imported again.

A tombstone stands for a document, a passage, a title or a key of metadata. It is a hash of ids: ids
can be file names, which tell something. A passage whose id is unique in its source is recognised in
every document, because tools copy messages from one conversation to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

from recollect.language.text import identifier
from recollect.model.documents import Document, Passage
from recollect.store.sql.database import Database

Tombstone = tuple[int, int]
"""The two halves of a hash, as columns that both databases can compare."""

_NAMES_PER_QUERY = 10_000


def tombstone(*parts: str) -> Tombstone:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(text, digest_size=16).digest(), "big")
    return number >> 65, (number >> 1) & ((1 << 63) - 1)


def document_tombstone(document: Document) -> Tombstone:
    return tombstone("document", identifier(document.source), identifier(document.source_id))


def passage_tombstone(document: Document, id: str, is_shared: bool) -> Tombstone:
    """The tombstone of a passage; `is_shared` if its id is unique in the whole source."""
    scope = identifier(document.source_id)
    if is_shared:
        scope = ""
    kind = "passage in source" if is_shared else "passage in document"
    return tombstone(kind, identifier(document.source), scope, identifier(id))


def title_tombstone(document: Document) -> Tombstone:
    return tombstone(
        "title", identifier(document.source), identifier(document.source_id), document.title
    )


def metadata_tombstone(document: Document, key: str) -> Tombstone:
    return tombstone("metadata", identifier(document.source), identifier(document.source_id), key)


# -- storing ---


def add_tombstones(db: Database, tombstones: Iterable[Tombstone]) -> None:
    rows = sorted(set(tombstones))
    db.insert("forgotten", ("high", "low"), rows, keep_existing=True)


def has_tombstones(db: Database) -> bool:
    return db.get(f"select 1 from {db.own_rows('forgotten')} limit 1") is not None


def stored_tombstones(db: Database, tombstones: Collection[Tombstone]) -> set[Tombstone]:
    """Which of the tombstones are stored."""
    stored: set[Tombstone] = set()
    names = sorted(set(tombstones))
    for start in range(0, len(names), _NAMES_PER_QUERY):
        members, value = db.in_list([high for high, _ in names[start : start + _NAMES_PER_QUERY]])
        rows = db.rows(
            f"select high, low from forgotten where {db.own()} and high in ({members})", (value,)
        )
        stored.update((high, low) for high, low in rows)
    return stored.intersection(names)


# -- leaving out what was forgotten ---


def remembered_part(
    db: Database, document: Document, index_ids: bool
) -> tuple[Document | None, int]:
    """The document without what was forgotten, and the number of passages left out.

    None if nothing of it is left.
    """
    is_shared = document.shared_ids or index_ids
    names = {
        passage.id: passage_tombstone(document, passage.id, is_shared)
        for passage in document.passages
    }
    keys = {key: metadata_tombstone(document, key) for key in document.metadata}
    own, title = document_tombstone(document), title_tombstone(document)
    stored = stored_tombstones(db, [own, title, *names.values(), *keys.values()])
    if not stored:
        return document, 0
    if own in stored:
        return None, len(document.passages)
    forgotten_ids = {id_ for id_, name in names.items() if name in stored}
    if len(forgotten_ids) == len(names):
        return None, len(document.passages)
    passages = without_passages(document.passages, forgotten_ids)
    head = document.head
    if head in forgotten_ids:
        head = None
    part = replace(document, passages=tuple(passages), head=head)
    if title in stored:
        part = replace(part, title="")
    if any(name in stored for name in keys.values()):
        metadata = {key: document.metadata[key] for key, name in keys.items() if name not in stored}
        part = replace(part, metadata=metadata)
    return part, len(document.passages) - len(passages)


def remembered_passages(db: Database, key: int, passages: Sequence[Passage]) -> Sequence[Passage]:
    """The passages for a stored document, given by its key, that were not forgotten."""
    if not passages or not has_tombstones(db):
        return passages
    ((source, source_id),) = db.rows(
        f"select source, source_id from document where {db.own()} and key = ?", (key,)
    )
    document = Document(source, source_id)
    parents = [passage.parent for passage in passages if passage.parent is not None]
    names: dict[str, set[Tombstone]] = {}
    for id_ in {*(passage.id for passage in passages), *parents}:
        names[id_] = {passage_tombstone(document, id_, is_shared) for is_shared in (True, False)}
    stored = stored_tombstones(db, [name for some in names.values() for name in some])
    forgotten_ids = {id_ for id_, some in names.items() if not some.isdisjoint(stored)}
    return without_passages(passages, forgotten_ids)


def without_passages(passages: Sequence[Passage], ids: Collection[str]) -> list[Passage]:
    """The other passages. Replies to these become replies to the nearest passage before."""
    if not ids:
        return list(passages)
    parents = {passage.id: passage.parent for passage in passages}
    find_parent = surviving_parent(parents, ids)
    others = []
    for passage in passages:
        if passage.id in ids:
            continue
        if passage.parent in ids:
            passage = passage._replace(parent=find_parent(passage.parent))
        others.append(passage)
    return others


def surviving_parent(
    parents: dict[str, str | None], ids: Collection[str]
) -> Callable[[str | None], str | None]:
    """A function that finds the nearest ancestor of a passage, or itself, that is not in `ids`."""

    def find(id_: str | None) -> str | None:
        trail = set()
        while id_ is not None and id_ in ids and id_ not in trail:
            trail.add(id_)
            id_ = parents.get(id_)
        if id_ in ids:
            return None
        return id_

    return find
