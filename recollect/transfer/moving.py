"""Move a library to another place, while people write to it.

1. A snapshot of the source is copied and read back, and both are compared by a hash of every value.
2. What changed in the meantime is found by comparing hashes of blocks of rows, and copied too,
   until little is left.
3. The last changes are copied while nobody can write to the source. Writers wait for that, usually
   less than a second. To switch over, the source is closed in the same transaction: whoever waited
   gets LibraryMoved, and nothing can be written that the copy does not have.
4. The target is opened. Then the source is removed, if that is wanted.

Until step 4 the target is marked as incomplete, and the same call resumes the move from any point.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from recollect.errors import DamagedLibrary, InvalidInput, RecollectError, StoreBusy
from recollect.model.search import Filter
from recollect.progress import Progress, ignore_progress
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.errors import reason_of
from recollect.store.sql.transfer import ARRIVED, CARRIED_MARKERS, MOVING
from recollect.store.values import Batch, Closure, Contents

# Attempts to correct a copy that differs from the snapshot it was made of.
_ROUNDS = 2
# Passes over what changed in the meantime, each shorter than the one before.
_PASSES = 10
# So many changed blocks can be copied while writers wait.
_FEW_BLOCKS = 20
# Attempts to copy the last changes within the time for which writers may wait.
_ATTEMPTS = 5
_TWIN = "twin"
_MOVE = "move"
"""The marker in the target with the number of the move, until the source is removed."""


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The result of a move: both libraries were identical."""

    contents: Contents
    copied: bool
    """False if the copy was already complete."""
    removed: bool
    """Whether the original was removed."""
    closed: bool = False
    """Whether the original was closed: it refuses writes, and says where the library is now."""


def move(
    source: Store,
    target: Store,
    *,
    address: str = "",
    switch: bool = False,
    remove: bool = False,
    progress: Progress | None = None,
) -> MoveResult:
    """Copy a library to a new place, or resume that.

    With `switch`, the source is closed when the target has everything, and writers are told its
    `address`. With `remove`, the source is then removed too.
    """
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(
            f"{source.path} is incomplete: a move into it was interrupted. Finish that move first."
        )
    source.join_move()
    target.join_move()
    if is_same(source, target):
        raise InvalidInput(f"FROM and TO are the same library: {source.path}.")
    closure = source.closure()
    if closure is not None:  # an earlier call was interrupted after that
        if target.get_marker(_MOVE) != closure.token:
            raise InvalidInput(
                f"{source.path} was moved to {closure.moved_to}, not to {target.path}."
            )
        contents = _open(target)
        if remove:
            _remove(source, target, closure)
        return MoveResult(contents, False, remove, closed=True)
    existing = existing_copy(source, target)
    if existing is not None:
        if remove:
            source.remove_library(existing)
        return MoveResult(existing, False, remove)
    report = progress or ignore_progress
    try:
        copy(source, target, report)
        copy_changes(source, target)
        closure = hand_over(source, target, address if switch or remove else "")
    except DamagedLibrary as error:
        raise damaged_source(source, error) from error
    contents = _open(target)
    if remove:
        _remove(source, target, closure)
    return MoveResult(contents, True, remove, closure is not None)


def _remove(source: Store, target: Store, closure: Closure | None) -> None:
    assert closure is not None
    try:
        source.remove_library(closure.state)
    except StoreBusy as error:
        raise StoreBusy(
            f"The library is now at {closure.moved_to}, and programs can use it there. {error}"
        ) from error
    target.set_marker(_MOVE, None)


def reopen(source: Store) -> None:
    """Let people write to a library again that was closed by a move."""
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(f"{source.path} is incomplete: a move into it was interrupted.")
    if source.closure() is None:
        raise InvalidInput(f"{source.path} is not closed.")
    source.complete_move()


def finish(target: Store) -> MoveResult | None:
    """Finish a move that was interrupted after the source was removed; None if there is none."""
    if target.get_marker(MOVING) != ARRIVED and target.get_marker(_MOVE) is None:
        return None
    target.join_move()
    contents = _open(target)
    target.set_marker(_MOVE, None)
    return MoveResult(contents, True, True)


def abort(target: Store) -> None:
    """Remove what an interrupted move left. A complete library is never touched."""
    state = target.get_marker(MOVING)
    if state is None and target.summaries(Filter(), "", 1, 0)[1]:
        raise InvalidInput(
            f"{target.path} is complete; there is no move to abort. Nothing was removed."
        )
    if state == ARRIVED:
        raise InvalidInput(
            f"{target.path} is a complete copy, and may be the only one. "
            "Run the same move again to finish it."
        )
    target.join_move()
    target.remove_library()


def damaged_source(source: Store, error: DamagedLibrary) -> DamagedLibrary:
    """An error that names what is damaged."""
    reason = next(iter(source.verify().damaged), reason_of(error))
    return DamagedLibrary(
        f"{source.path} is damaged and cannot be moved: {reason}. Nothing was removed. Restore a "
        "backup with `recollect restore`, or rescue what can be read with `recollect salvage`. "
        "Then discard the incomplete copy with `recollect move FROM TO --abort`."
    )


def is_same(source: Store, target: Store) -> bool:
    """Whether two places are one library: then a marker set in one appears in the other."""
    token = secrets.randbelow(1 << 31)
    target.set_marker(_TWIN, token)
    try:
        return source.get_marker(_TWIN) == token
    finally:
        target.set_marker(_TWIN, None)


def existing_copy(source: Store, target: Store) -> Contents | None:
    """The contents of the target, if it is already a complete copy of the source."""
    if target.get_marker(MOVING) is not None or source.size() != target.size():
        return None
    contents = target.export_batches()
    return contents if source.export_batches() == contents else None


def copy(source: Store, target: Store, report: Progress) -> None:
    """Copy a snapshot of the source, and compare the copy with it."""
    correction: str | None = None
    for _ in range(_ROUNDS):
        total = source.size()

        def receive(batch: Batch, total: int = total) -> None:
            nonlocal correction
            correction = target.import_batch(batch) or correction
            if batch.highest_key:
                report("Copying", batch.highest_key, total)

        def read_back(batch: Batch, total: int = total) -> None:
            if batch.highest_key:
                report("Verifying", batch.highest_key, total)

        contents = source.export_batches(receive)
        if target.export_batches(read_back) == contents:
            return
    raise different(source, correction)


def different(source: Store, correction: str | None) -> RecollectError:
    detail = f": {correction}" if correction else ""
    return RecollectError(
        f"The copy of {source.path} differs from it and could not be corrected{detail}. "
        "Nothing was removed."
    )


def copy_changes(source: Store, target: Store) -> None:
    """Copy what changed in the meantime, until little is left."""
    for _ in range(_PASSES):
        count = source.export_changes(target.fingerprints(), receiver(source, target))
        if count <= _FEW_BLOCKS:
            return


def receiver(source: Store, target: Store) -> Callable[[Batch], None]:
    """A function that copies a batch to the target, and compares what is stored there."""

    def receive(batch: Batch) -> None:
        correction = target.import_batch(batch)
        if target.rows_in_range(batch) != list(batch.rows):
            raise different(source, correction)

    return receive


def hand_over(source: Store, target: Store, address: str) -> Closure | None:
    """Copy the last changes while nobody can write to the source.

    With an address, the source is closed. Then the reason is returned.
    """
    closure: Closure | None = None

    def close(state: str) -> Closure | None:
        nonlocal closure
        for name in CARRIED_MARKERS:
            target.set_marker(name, source.get_marker(name))
        if address:
            closure = Closure(address, secrets.randbelow(1 << 31), state)
            target.set_marker(_MOVE, closure.token)
            target.set_marker(MOVING, ARRIVED)
        return closure

    # Writers give up after their time is over, so they must not wait for longer.
    seconds = LIMITS.write_wait_seconds / 3
    for _ in range(_ATTEMPTS):
        with suppress(StoreBusy):
            receive = receiver(source, target)
            source.export_changes(target.fingerprints(), receive, close, seconds)
            return closure
        copy_changes(source, target)
    raise RecollectError(
        f"{source.path} changes faster than it can be copied. Stop some of the programs that write "
        "to it, then run the same command again."
    )


def _open(target: Store) -> Contents:
    """Let people use the target, and return what was moved.

    That is read from a snapshot from before they could write. It exists from the first batch on.
    """
    is_open = False

    def open_once(batch: Batch) -> None:
        nonlocal is_open
        if not is_open:
            is_open = True
            target.complete_move()

    return target.export_batches(open_once)
