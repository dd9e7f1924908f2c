"""All volumes of a library: search, write and drop them.

FTS5 indexes everything and is exact, but takes a microsecond or more to rank a match. Tantivy takes
a few nanoseconds, but commits slowly. So ranges of passages that no longer grow are also written to
volumes (`volume.py`). The table `volume` lists the ranges of keys that are sealed, so every search
of a snapshot sees the same volumes. FTS5 answers for passages without a volume. If a volume is
missing or damaged, FTS5 answers for it as well: this costs time, never a result.

Passages that changed after their volume was written are few, because a volume with many of them is
written again. So they are searched one by one, in memory: a query in FTS5 for each of them would
take longer than the search in the volumes.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Generic, NamedTuple, TypeGuard, TypeVar

from recollect.language.queries.query_tree import Node, Or, Word, alternatives
from recollect.model.search import Filter
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import (
    filter_of_any_kind,
    has_only_kinds,
    matching_documents,
)
from recollect.store.sqlite import fts
from recollect.store.sqlite.checksums import is_check_due, log_damage
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.private_files import file_lock, protect_tree
from recollect.store.sqlite.scans import (
    KeyRange,
    all_keys,
    keys_in,
    passing_keys,
)
from recollect.store.sqlite.sealing import ranges_to_seal, size_of
from recollect.store.sqlite.transactions import Connections
from recollect.store.sqlite.volume import (
    MANIFEST,
    DamagedVolume,
    Match,
    UnreadableVolume,
    Volume,
    read_manifest,
)
from recollect.store.sqlite.volume_queries import (
    UnsupportedQuery,
    VolumeFilter,
    supports,
)
from recollect.store.sqlite.volume_writer import Row, WriteStopped, clear_unfinished, write_volume
from recollect.store.values import Progress

T = TypeVar("T")

_ROWS_PER_QUERY = 2_000
# Passages with a word in a range without a volume, to weigh the word.
_MAX_COUNTED = 20_000
# Changed passages that are searched in memory, compressed and not. FTS5 searches the others.
_MAX_CHANGED_BYTES = 1_000_000
_MAX_CHANGED_CHARACTERS = 2_000_000


class VolumeResults(NamedTuple, Generic[T]):
    """The results of the volumes that can answer a query, and what else must be searched."""

    results: list[T]
    fts_ranges: list[KeyRange]
    """FTS5 must search the passages in these ranges."""
    changed_texts: Mapping[int, str]
    """The words of changed passages, which must be searched one by one, by key."""


class VolumeIndex:
    """The volumes of one library."""

    def __init__(self, folder: Path, connections: Connections) -> None:
        self._folder = folder
        self._connections = connections
        self._open_volumes: dict[str, Volume] = {}
        self._damaged_names: set[str] = set()
        """The volumes that could not be opened because they are damaged."""
        self._lock = threading.Lock()
        self._lock_file = folder / "lock"
        """Locked while a process writes or removes volumes."""

    # -- searching ---

    def match(self, db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of the passages that match, best first."""
        volume_filter = _volume_filter(db, filter)
        results, fts_ranges, changed_texts = self._search_volumes(
            db, node, lambda volume: volume.best_matches(node, volume_filter, limit)
        )
        hits: list[Match] = []
        for key_range in reversed(fts_ranges):
            hits += fts.best_matches(db, node, filter, key_range, limit)
        hits += self._changed_matches(db, node, filter, changed_texts)
        hits += [hit for result in reversed(results) for hit in result]
        # Sorting is stable. So among passages with the same score, the newest come first, and the
        # first matches are the same for every limit.
        hits.sort(key=itemgetter(1), reverse=True)
        return [key for key, _ in hits[:limit]]

    def _changed_matches(
        self, db: Connection, node: Node, filter: Filter, texts: Mapping[int, str]
    ) -> list[Match]:
        """The changed passages that match, with their scores."""
        _, newest_key = all_keys(db)
        weights: dict[int, float] = {}
        for part in alternatives(node):
            keys = matching_texts(part, texts)
            if keys:
                frequency = self.frequency(db, part, _MAX_COUNTED)
                weight = fts.inverse_document_frequency(frequency, newest_key)
                for key in keys:
                    weights[key] = weights.get(key, 0.0) + weight
        passing = passing_keys(db, list(weights), filter) if weights else ()
        return [(key, fts.bm25(weights[key], 1, texts[key].count(" "))) for key in passing]

    def count(self, db: Connection, node: Node, filter: Filter, limit: int) -> tuple[int, bool]:
        """The number of passages that match, and whether it is exact.

        FTS5 counts at most `limit` matches per range. If one of several words has that many, only
        its matches are counted, because counting all would take longer than the search.
        """
        if isinstance(node, Or) and has_only_kinds(filter):
            words = [word.text for word in nested_alternatives(node) if is_single_word(word)]
            results, _, _ = self._search_volumes(
                db, node, lambda volume: volume.frequencies(words, filter.hidden, filter.kinds)
            )
            most = max(map(sum, zip(*results, strict=True)), default=0)
            # Those that changed may not have the word any more.
            most -= len(changed_passages(db)[0])
            if most >= limit:
                return most, False
        return self._count_all(db, node, filter, limit)

    def _count_all(
        self, db: Connection, node: Node, filter: Filter | None, limit: int
    ) -> tuple[int, bool]:
        """Like `count`, but all matches in volumes are counted.

        Without a filter, hidden passages count too.
        """
        volume_filter = _volume_filter(db, filter or Filter(hidden=True))
        results, fts_ranges, changed_texts = self._search_volumes(
            db, node, lambda volume: volume.count_matches(node, volume_filter)
        )
        counts = [fts.count_matches(db, node, filter, key_range, limit) for key_range in fts_ranges]
        total = sum(results) + sum(count for count, _ in counts)
        total += len(passing_texts(db, node, filter, changed_texts))
        return total, all(is_exact for _, is_exact in counts)

    def matching_keys(self, db: Connection, node: Node, filter: Filter) -> list[int]:
        """The keys of all passages that match."""
        volume_filter = _volume_filter(db, filter)
        results, fts_ranges, changed_texts = self._search_volumes(
            db, node, lambda volume: volume.matching_keys(node, volume_filter)
        )
        keys = [key for result in results for key in result]
        for key_range in fts_ranges:
            keys += fts.all_matches(db, node, filter, key_range)
        return keys + passing_texts(db, node, filter, changed_texts)

    def frequency(self, db: Connection, node: Node, limit: int) -> int:
        """The number of passages that have a word.

        Volumes store the frequency of every single word. If a word has several forms, passages with
        more than one form count more than once. If all passages with a word may have changed, they
        are counted one by one.
        """
        forms = alternatives(node)
        words = [form.text for form in forms if is_single_word(form)]
        if len(words) < len(forms):
            return self._count_all(db, node, None, limit)[0]
        results, fts_ranges, changed_texts = self._search_volumes(
            db, node, lambda volume: sum(volume.frequencies(words, True))
        )
        if changed_texts and sum(results) <= len(changed_texts):
            return self._count_all(db, node, None, limit)[0]
        return sum(results) + sum(
            fts.count_matches(db, node, None, key_range, limit)[0] for key_range in fts_ranges
        )

    def _search_volumes(
        self, db: Connection, node: Node, search: Callable[[Volume], T]
    ) -> VolumeResults[T]:
        """Search all volumes that can answer a query."""
        if not supports(node):
            return VolumeResults([], [all_keys(db)], {})
        volumes, gaps = self._volumes_and_gaps(db)
        changed_keys, texts = changed_passages(db) if volumes else ((), {})
        results: list[T] = []
        fts_ranges = list(gaps)
        changed: list[int] = []
        for key_range, volume in volumes:
            try:
                results.append(search(volume))
                changed += keys_in(key_range, changed_keys)
            except (UnsupportedQuery, UnreadableVolume):
                fts_ranges.append(key_range)
        fts_ranges += [(key, key) for key in changed if key not in texts]
        return VolumeResults(results, fts_ranges, {k: texts[k] for k in changed if k in texts})

    def _volumes_and_gaps(
        self, db: Connection
    ) -> tuple[list[tuple[KeyRange, Volume]], list[KeyRange]]:
        """The volumes of one snapshot of the library, and the ranges without a volume."""
        volumes: list[tuple[KeyRange, Volume]] = []
        gaps: list[KeyRange] = []
        next_key = 1
        rows = db.memoize(
            "volumes",
            lambda: db.rows("select name, first, last from volume where ready order by first"),
        )
        for name, first, last in rows:
            volume = self._volume(name)
            if volume is None:
                continue
            volumes.append(((first, last), volume))
            if next_key < first:
                gaps.append((next_key, first - 1))
            next_key = last + 1
        _, newest_key = all_keys(db)
        if next_key <= newest_key:
            gaps.append((next_key, newest_key))
        self._close_others({name for name, _, _ in rows})
        return volumes, gaps

    # -- open volumes ---

    def _volume(self, name: str) -> Volume | None:
        with self._lock:
            if name not in self._open_volumes:
                try:
                    self._open_volumes[name] = Volume(self._folder / name)
                except UnreadableVolume as error:
                    if isinstance(error, DamagedVolume) and name not in self._damaged_names:
                        self._damaged_names.add(name)
                        log_damage(self._folder.parent, f"{error} It is written again.")
                    return None
            return self._open_volumes[name]

    def _close_others(self, names: set[str]) -> None:
        """Close all volumes except these."""
        with self._lock:
            for name in self._open_volumes.keys() - names:
                del self._open_volumes[name]

    def close(self) -> None:
        self._close_others(set())

    # -- writing ---

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        """Seal new passages, and seal again what has changed a lot.

        Only one process does this at a time. If it is killed, the library stays as it was, or has
        one more volume.
        """
        # Another process may be removing folders, which does not take long.
        with file_lock(self._lock_file, wait=True) as is_locked:
            if not is_locked:
                return
            unreadable = [(name,) for name in self._ready_names() if not self._is_readable(name)]

            def clean(db: Connection) -> None:
                db.run("delete from volume where not ready")
                db.run_many("delete from volume where name = ?", unreadable)

            self._connections.write(clean)
            self._remove_folders(clear=True)
            with self._connections.read() as db:
                plan = ranges_to_seal(db)
            total = sum(map(size_of, plan))
            sealed_passages = 0
            for key_range in plan:
                if stop is not None and stop():
                    return
                try:
                    self._seal(key_range, stop)
                except WriteStopped:
                    return
                sealed_passages += size_of(key_range)
                if progress is not None:
                    progress(sealed_passages, total)

    def _seal(self, key_range: KeyRange, stop: Callable[[], bool] | None) -> None:
        """Write one volume.

        Its row in the table comes first and replaces older volumes in the range. So passages that
        change while the volume is written become stale, and a deletion drops the row. Otherwise the
        volume is marked as ready at the end.
        """
        name = uuid.uuid4().hex[:12]

        def claim(db: Connection) -> None:
            db.run("delete from volume where first >= ? and last <= ?", key_range)
            db.run("delete from stale where passage between ? and ?", key_range)
            db.run("insert into volume values (?, ?, ?, 0)", (name, *key_range))

        self._connections.write(claim)
        try:
            write_volume(self._folder / name, self._rows(key_range), stop)
            protect_tree(self._folder / name)
        except BaseException:  # also Ctrl-C: half a volume is useless
            self._drop(name)
            raise
        self._connections.write(
            lambda db: db.run("update volume set ready = 1 where name = ?", (name,))
        )
        self._remove_folders()

    def _rows(self, key_range: KeyRange) -> Iterator[Row]:
        """The rows of a range, newest first: in this order, a volume returns equal matches."""
        first, end = key_range
        while first <= end:
            with self._connections.read() as db:
                rows = db.rows(
                    f"""select p.key, p.document,
                      {INDEXED_TITLE}, p.content,
                      p.role, p.author, p.created_at, p.visibility = 'hidden', d.kind
                    from passage p join document d on d.key = p.document
                    where p.key between ? and ? order by p.key desc limit ?""",
                    (first, end, _ROWS_PER_QUERY),
                )
            yield from map(Row._make, rows)
            if len(rows) < _ROWS_PER_QUERY:
                return
            end = rows[-1][0] - 1

    # -- damage ---

    def needs_check(self) -> bool:
        """Whether a volume must be verified, or turned out to be damaged."""
        names = self._ready_names()
        if not self._damaged_names.isdisjoint(names):
            return True
        return any(is_check_due(self._folder / name / MANIFEST, ()) for name in names)

    def damaged(self) -> dict[str, str]:
        """Verify all volumes. The names of the damaged ones, and what is wrong with them."""
        reasons: dict[str, str] = {}
        for name in self._ready_names():
            try:
                read_manifest(self._folder / name, verify=True)
            except (UnreadableVolume, OSError) as error:
                reasons[name] = str(error)
        return reasons

    def drop_damaged(self) -> None:
        """Drop all volumes that are damaged. `refresh` writes them again."""
        for name, reason in self.damaged().items():
            log_damage(self._folder.parent, f"{reason} It is written again.")
            self._drop(name)

    def _ready_names(self) -> list[str]:
        with self._connections.read() as db:
            return [name for (name,) in db.rows("select name from volume where ready")]

    def _is_readable(self, name: str) -> bool:
        """Whether a volume can be searched."""
        volume = self._volume(name)
        with suppress(UnreadableVolume):
            read_manifest(self._folder / name)  # verifies the checksums if that is due
            return volume is not None and volume.frequencies([""], True) is not None
        self._close_others(self._open_volumes.keys() - {name})
        return False

    # -- dropping ---

    def _drop(self, name: str) -> None:
        self._connections.write(lambda db: db.run("delete from volume where name = ?", (name,)))

    def sweep(self) -> bool:
        """Remove the folders of dropped volumes. False if unfinished ones may remain."""
        if not self._folder.is_dir():
            return True
        with file_lock(self._lock_file) as is_locked:
            # Otherwise the process that seals clears its unfinished volumes itself.
            self._remove_folders(clear=is_locked)
            return is_locked

    def _remove_folders(self, clear: bool = False) -> None:
        """Remove the folders of dropped volumes; with `clear`, also those of unfinished ones."""
        with self._connections.read() as db:
            names = {name for (name,) in db.rows("select name from volume")}
        self._close_others(names)
        if clear:
            clear_unfinished(self._folder)
        for folder in self._folder.iterdir():
            if folder.is_dir() and "." not in folder.name and folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)


def nested_alternatives(node: Node) -> Iterator[Node]:
    """The parts of an OR, and of those of its parts that are one as well."""
    if isinstance(node, Or):
        for part in node.parts:
            yield from nested_alternatives(part)
    else:
        yield node


def is_single_word(node: Node) -> TypeGuard[Word]:
    return isinstance(node, Word) and not node.prefix and node.text.isalnum()


def _volume_filter(db: Connection, filter: Filter) -> VolumeFilter:
    any_kind = filter_of_any_kind(filter)

    def documents() -> tuple[list[int] | None, list[int]]:
        only, without = matching_documents(db, any_kind)
        return None if only is None else sorted(only), sorted(without)

    only, without = db.memoize(("documents", any_kind), documents)
    return VolumeFilter(filter, only, without, changed_passages(db)[0])


# -- changed passages ---


def changed_passages(db: Connection) -> tuple[Sequence[int], Mapping[int, str]]:
    """The keys of the passages that have changed, and the words of those that fit into memory.

    They are read once in each state of the library.
    """

    def read() -> tuple[list[int], dict[int, str]]:
        rows = db.rows(
            """select s.passage, sum(length(p.body)) over (order by length(p.body), s.passage)
            from stale s join passage p on p.key = s.passage"""
        )
        keys = [key for key, total in rows if total <= _MAX_CHANGED_BYTES]
        all_keys = sorted(key for key, _ in rows)
        rows = db.rows(
            f"select p.key, {INDEXED_TITLE}, p.content from json_each(?) k "
            "cross join passage p on p.key = k.value join document d on d.key = p.document",
            (json.dumps(keys),),
        )
        texts: dict[int, str] = {}
        characters = 0
        for key, title, content in rows:
            characters += len(content)
            if characters > _MAX_CHANGED_CHARACTERS:
                break
            texts[key] = fts.word_text(title, content)
        return all_keys, texts

    return db.memoize("changed passages", read)


def matching_texts(node: Node, texts: Mapping[int, str]) -> list[int]:
    is_match = fts.matcher(node)
    return [key for key, text in texts.items() if is_match(text)]


def passing_texts(
    db: Connection, node: Node, filter: Filter | None, texts: Mapping[int, str]
) -> list[int]:
    """The changed passages that match. Without a filter, hidden ones match too."""
    keys = matching_texts(node, texts)
    if not keys or filter is None:
        return keys
    return sorted(passing_keys(db, keys, filter))
