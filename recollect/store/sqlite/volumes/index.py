"""All volumes of a library: search, write and drop them.

The table `volume` lists the ranges of keys that are sealed, so every search of a snapshot sees the
same volumes. FTS5 answers for passages without a volume. If a volume is missing or damaged, FTS5
answers for it as well: this costs time, never a result. Passages that changed after their volume
was written are searched one by one (`changed_passages`).
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Generic, NamedTuple, TypeGuard, TypeVar

from recollect.language.queries.query_tree import Node, Or, Word, alternatives
from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.reading.selection import (
    filter_of_any_kind,
    has_only_kinds,
    matching_documents,
)
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.connections.transactions import Connections
from recollect.store.sqlite.files.checksums import is_check_due, log_damage
from recollect.store.sqlite.files.file_lock import file_lock
from recollect.store.sqlite.files.private_files import protect_tree
from recollect.store.sqlite.passages.key_ranges import (
    KeyRange,
    all_keys,
    keys_in,
    keys_in_few_documents,
)
from recollect.store.sqlite.text import fts_match, verified_matches
from recollect.store.sqlite.volumes import changed_passages
from recollect.store.sqlite.volumes.best_matches import BestMatches
from recollect.store.sqlite.volumes.changed_passages import ChangedPassages
from recollect.store.sqlite.volumes.format import (
    MANIFEST,
    DamagedVolume,
    UnreadableVolume,
    read_manifest,
    verify_checksums,
)
from recollect.store.sqlite.volumes.plan import ranges_to_seal
from recollect.store.sqlite.volumes.queries import UnsupportedQuery, has_near, supports
from recollect.store.sqlite.volumes.volume import Match, Volume
from recollect.store.sqlite.volumes.volume_filter import VolumeFilter
from recollect.store.sqlite.volumes.writer import Row, WriteStopped, clear_unfinished, write_volume
from recollect.store.values import Progress

T = TypeVar("T")

_ROWS_PER_QUERY = 2_000
# Passages with a word in a range without a volume, to weigh the word.
_MAX_COUNTED = 20_000


class Snapshot(NamedTuple):
    """What is sealed in one snapshot of the library."""

    volumes: tuple[tuple[KeyRange, Volume], ...]
    gaps: tuple[KeyRange, ...]
    """The ranges without a volume."""
    changed: ChangedPassages


class VolumeResults(NamedTuple, Generic[T]):
    """The results of the volumes that can answer a query, and what else must be searched."""

    results: list[T]
    fts_ranges: list[KeyRange]
    """FTS5 must search the passages in these ranges."""
    changed_texts: dict[int, str]
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

    # -- searching ---

    def match(self, db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of the passages that match, best first."""
        make_filter = _filter_maker(db, filter)
        _, newest_key = all_keys(db)
        best = BestMatches(limit, newest_key)

        def search(volume: Volume, changed_keys: tuple[int, ...]) -> list[Match]:
            volume_filter = make_filter(changed_keys)
            return best.find(volume, partial(_best_matches, db, volume, node, volume_filter))

        results, fts_ranges, changed_texts = self._search_volumes(db, node, search)
        if not best.is_complete():
            results, fts_ranges, changed_texts = self._search_volumes(db, node, search)
        hits: list[Match] = []
        keys = None
        if fts_ranges:
            keys = keys_in_few_documents(db, filter)
        for key_range in reversed(fts_ranges):
            hits += fts_match.best_matches(db, node, filter, key_range, limit, keys)

        def weight(part: Node) -> float:
            frequency = self.frequency(db, part, _MAX_COUNTED)
            return fts_match.inverse_document_frequency(frequency, newest_key)

        hits += changed_passages.best_matches(db, node, filter, changed_texts, weight)
        hits += [hit for result in reversed(results) for hit in result]
        # Sorting is stable. So among passages with the same score, the newest come first, and the
        # first matches are the same for every limit.
        hits.sort(key=itemgetter(1), reverse=True)
        return [key for key, _ in hits[:limit]]

    def count(self, db: Connection, node: Node, filter: Filter, limit: int) -> tuple[int, bool]:
        """The number of passages that match, and whether it is exact.

        FTS5 counts at most `limit` matches per range. If one of several words has that many, only
        its matches are counted, because counting all would take longer than the search.
        """
        if isinstance(node, Or) and has_only_kinds(filter):
            most = self._matches_of_most_frequent(db, node, filter)
            if most >= limit:
                return most, False
        return self._count_all(db, node, filter, limit)

    def _count_all(
        self, db: Connection, node: Node, filter: Filter | None, limit: int
    ) -> tuple[int, bool]:
        """Like `count`, but all matches in volumes are counted.

        Without a filter, hidden passages count too.
        """
        make_filter = _filter_maker(db, filter or Filter(hidden=True))
        remaining = limit

        def count(volume: Volume, changed_keys: tuple[int, ...]) -> tuple[int, bool]:
            nonlocal remaining
            volume_filter = make_filter(changed_keys)
            if not has_near(node):
                return volume.count_matches(node, volume_filter), True
            # Matches are verified up to the limit, in all volumes together.
            matches = _best_matches(db, volume, node, volume_filter, remaining)
            is_exact = len(matches) < remaining
            remaining -= len(matches)
            return len(matches), is_exact

        results, fts_ranges, changed_texts = self._search_volumes(db, node, count)
        keys = None
        if filter and fts_ranges:
            keys = keys_in_few_documents(db, filter)
        counts = results + [
            fts_match.count_matches(db, node, filter, key_range, limit, keys)
            for key_range in fts_ranges
        ]
        total = sum(count for count, _ in counts)
        total += len(changed_passages.matching_keys(db, node, filter, changed_texts))
        return total, all(is_exact for _, is_exact in counts)

    def matching_keys(self, db: Connection, node: Node, filter: Filter) -> list[int]:
        """The keys of all passages that match."""
        make_filter = _filter_maker(db, filter)
        results, fts_ranges, changed_texts = self._search_volumes(
            db,
            node,
            lambda volume, keys: _matching_keys(db, volume, node, make_filter(keys)),
        )
        keys = [key for result in results for key in result]
        for key_range in fts_ranges:
            keys += verified_matches.all_matches(db, node, filter, key_range)
        return keys + changed_passages.matching_keys(db, node, filter, changed_texts)

    def frequency(self, db: Connection, node: Node, limit: int) -> int:
        """The number of passages that have a word.

        Volumes store the frequency of every single word. If a word has several forms, passages with
        more than one form count more than once. If all passages with a word may have changed, they
        are counted one by one.
        """
        forms = alternatives(node)
        words = [form.text for form in forms if _is_single_word(form)]
        if len(words) < len(forms):
            return self._count_all(db, node, None, limit)[0]
        results, fts_ranges, changed_texts = self._search_volumes(
            db, node, lambda volume, _: sum(volume.frequencies(words, True))
        )
        if changed_texts and sum(results) <= len(changed_texts):
            return self._count_all(db, node, None, limit)[0]
        counts = [
            fts_match.count_matches(db, node, None, key_range, limit) for key_range in fts_ranges
        ]
        return sum(results) + sum(count for count, _ in counts)

    def keys_with_symbols(
        self, db: Connection, symbols: Sequence[str], limit: int
    ) -> list[int] | None:
        """The keys of the passages that may have these symbols; None if there are more than that.

        These are also the passages that are in no volume, or have changed.
        """
        snapshot = self._snapshot(db)
        keys = [*snapshot.changed.keys]
        for first, last in snapshot.gaps:
            keys += range(first, min(last, first + limit) + 1)
        for _, volume in snapshot.volumes:
            if len(keys) > limit:
                return None
            try:
                matches = volume.keys_with_symbols(symbols, limit - len(keys))
            except UnreadableVolume:
                return None
            if matches is None:
                return None
            keys += matches
        return keys

    def _matches_of_most_frequent(self, db: Connection, node: Or, filter: Filter) -> int:
        """The number of passages in volumes that have the most frequent of several words."""
        words = [word.text for word in _nested_alternatives(node) if _is_single_word(word)]
        if not words:
            return 0
        results, _, _ = self._search_volumes(
            db, node, lambda volume, _: volume.frequencies(words, filter.hidden, filter.kinds)
        )
        most = max(map(sum, zip(*results, strict=True)), default=0)
        # Those that changed may not have the word any more.
        return most - len(self._snapshot(db).changed.keys)

    def _search_volumes(
        self,
        db: Connection,
        node: Node,
        search: Callable[[Volume, tuple[int, ...]], T],
    ) -> VolumeResults[T]:
        """Search all volumes that can answer a query.

        `search` gets a volume and the keys of the passages that changed.
        """
        snapshot = self._snapshot(db)
        if not supports(node):
            return VolumeResults([], [all_keys(db)], {})
        changed_keys, texts = snapshot.changed
        results: list[T] = []
        answered_ranges: list[KeyRange] = []
        fts_ranges = list(snapshot.gaps)
        for key_range, volume in snapshot.volumes:
            try:
                results.append(search(volume, changed_keys))
                answered_ranges.append(key_range)
            except (UnsupportedQuery, UnreadableVolume):
                fts_ranges.append(key_range)
        keys = [key for each in answered_ranges for key in keys_in(each, changed_keys)]
        fts_ranges += [(key, key) for key in keys if key not in texts]
        changed_texts = {key: texts[key] for key in keys if key in texts}
        return VolumeResults(results, fts_ranges, changed_texts)

    def _snapshot(self, db: Connection) -> Snapshot:
        volumes: list[tuple[KeyRange, Volume]] = []
        gaps: list[KeyRange] = []
        next_key = 1
        rows = db.memo.small_value("volumes", lambda: _ready_volumes(db))
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
        changed = changed_passages.NONE
        if volumes:
            changed = changed_passages.changed_passages(db)
        return Snapshot(tuple(volumes), tuple(gaps), changed)

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
            self._connections.write(lambda db: db.run("delete from volume where not ready"))
            self._drop_unreadable()
            self._remove_folders(clear=True)
            with self._connections.read() as db:
                plan = ranges_to_seal(db)
            total = sum(last - first + 1 for first, last in plan)
            sealed_passages = 0
            for first, last in plan:
                if stop is not None and stop():
                    return
                try:
                    self._seal((first, last), stop)
                except WriteStopped:
                    return
                sealed_passages += last - first + 1
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
            self._connections.write(lambda db: db.run("delete from volume where name = ?", (name,)))
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

    # -- checksums ---

    def needs_check(self) -> bool:
        """Whether a volume must be verified, or turned out to be damaged."""
        names = self._ready_names()
        if not self._damaged_names.isdisjoint(names):
            return True
        manifests = [self._folder / name / MANIFEST for name in names]
        return any(is_check_due(manifest, ()) for manifest in manifests)

    def damaged_files(self) -> list[str]:
        """Verify all volumes, and describe those that are damaged."""
        return [reason for _, reason in self._damaged_volumes()]

    def drop_damaged(self) -> None:
        """Verify all volumes, and drop those that are damaged. `refresh` writes them again."""
        for name, reason in self._damaged_volumes():
            log_damage(self._folder.parent, f"{reason} It is written again.")
            self._drop(name)

    def _damaged_volumes(self) -> Iterator[tuple[str, str]]:
        """Verify all volumes. The name of each damaged one, and what is wrong with it."""
        for name in self._ready_names():
            try:
                verify_checksums(self._folder / name, read_manifest(self._folder / name))
            except (UnreadableVolume, OSError) as error:
                yield name, str(error)

    def _ready_names(self) -> list[str]:
        with self._connections.read() as db:
            return [name for (name,) in db.rows("select name from volume where ready")]

    def _drop(self, name: str) -> None:
        self._connections.write(lambda db: db.run("delete from volume where name = ?", (name,)))

    # -- dropping ---

    @property
    def _lock_file(self) -> Path:
        """Locked while a process writes or removes volumes."""
        return self._folder / "lock"

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

    def _drop_unreadable(self) -> None:
        """Drop volumes that cannot be searched. Checksums are verified only if that is due."""
        unreadable = [(name,) for name in self._ready_names() if not self._is_readable(name)]
        self._connections.write(
            lambda db: db.run_many("delete from volume where name = ?", unreadable)
        )

    def _is_readable(self, name: str) -> bool:
        """Whether a volume can be searched."""
        volume = self._volume(name)
        with suppress(UnreadableVolume):
            read_manifest(self._folder / name)  # verifies the checksums if that is due
            return volume is not None and volume.frequencies([""], True) is not None
        self._close_others(self._open_volumes.keys() - {name})
        return False


def _best_matches(
    db: Connection, volume: Volume, node: Node, volume_filter: VolumeFilter, limit: int
) -> list[Match]:
    """The best matches of a volume, without those that only seem to match."""
    size = limit
    while True:
        matches = volume.best_matches(node, volume_filter, size)
        is_last = len(matches) < size
        if has_near(node):
            excluded = verified_matches.false_matches(db, node, [key for key, _ in matches])
            matches = [match for match in matches if match[0] not in excluded]
        if is_last or len(matches) >= limit:
            return matches[:limit]
        size *= 2


def _matching_keys(
    db: Connection, volume: Volume, node: Node, volume_filter: VolumeFilter
) -> list[int]:
    """The keys of all passages in a volume that match."""
    keys = volume.matching_keys(node, volume_filter)
    if not has_near(node):
        return keys
    excluded = verified_matches.false_matches(db, node, keys)
    return [key for key in keys if key not in excluded]


def _ready_volumes(db: Connection) -> list[tuple[str, int, int]]:
    """The name of each volume, and its first and last key."""
    return db.rows("select name, first, last from volume where ready order by first")


def _nested_alternatives(node: Node) -> Iterator[Node]:
    """The parts of an OR, and of those of its parts that are one as well."""
    if isinstance(node, Or):
        for part in node.parts:
            yield from _nested_alternatives(part)
    else:
        yield node


def _is_single_word(node: Node) -> TypeGuard[Word]:
    return isinstance(node, Word) and not node.prefix and node.text.isalnum()


def _filter_maker(db: Connection, filter: Filter) -> Callable[[tuple[int, ...]], VolumeFilter]:
    """A function that makes the filter for volumes, given the stale keys that it must exclude.

    The documents are looked up on the first call. Without volumes there is no call.
    """

    @cache
    def volume_filter(stale_keys: tuple[int, ...]) -> VolumeFilter:
        any_kind = filter_of_any_kind(filter)
        documents = db.memoize(any_kind, lambda: matching_documents(db, any_kind))
        return VolumeFilter(
            roles=filter.roles,
            authors=filter.authors,
            senders=filter.senders,
            not_roles=filter.not_roles,
            not_authors=filter.not_authors,
            after=micros(filter.after),
            before=micros(filter.before),
            kinds=filter.kinds,
            documents=documents.only,
            not_documents=documents.without,
            hidden=filter.hidden,
            not_keys=stale_keys,
        )

    return volume_filter
