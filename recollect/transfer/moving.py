"""Move a library to another place.

1. If the library is to be used at its new place from now on, the source is closed: whoever writes
   to it gets LibraryMoved. A mere copy is made of a snapshot, while people write.
2. All rows are copied and read back, and both libraries are compared by a hash of every value.
3. The target is opened. Then the source is removed, if that is wanted.

Until step 3 the target is marked as incomplete. If the move is interrupted, the same call begins
again with an empty target, or does what is left after step 3.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from recollect.errors import DamagedLibrary, InvalidInput, RecollectError, StoreBusy
from recollect.model.search import Filter
from recollect.progress import Progress, ignore_progress
from recollect.store.base import Store
from recollect.store.errors import reason_of
from recollect.store.sql.transfer import CARRIED_MARKERS, MOVING
from recollect.store.values import Batch, Closure, Contents

_TWIN = "twin"
_MOVE = "move"
"""The marker in a complete target with the number of the move, until the source is removed."""


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
    """Copy a library to a new place.

    With `switch`, the source is closed, and writers are told the `address` of the target. With
    `remove`, the source is then removed too.
    """
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(
            f"{source.path} is incomplete: a move into it was interrupted. Finish that move first."
        )
    source.join_move()
    target.join_move()
    if is_same(source, target):
        raise InvalidInput(f"FROM and TO are the same library: {source.path}.")
    earlier = closure = source.closure()
    if closure is not None and closure.moved_to != address:
        raise InvalidInput(f"{source.path} was moved to {closure.moved_to}, not to {target.path}.")
    if closure is None and (switch or remove):
        closure = Closure(address, secrets.randbelow(1 << 31))
        source.set_closure(closure)
    try:
        contents, copied = bring(source, target, closure, progress or ignore_progress)
    except BaseException as error:  # also Ctrl-C: nobody could write to either library
        if earlier is None and closure is not None:
            source.set_closure(None)
        if isinstance(error, DamagedLibrary):
            raise damaged_source(source, error) from error
        raise
    if remove:
        try:
            source.remove_library(closure)
        except StoreBusy as error:
            raise StoreBusy(
                f"The library is now at {address}, and programs can use it there. {error}"
            ) from error
        target.set_marker(_MOVE, None)
    return MoveResult(contents, copied, remove, closure is not None)


def bring(
    source: Store, target: Store, closure: Closure | None, report: Progress
) -> tuple[Contents, bool]:
    """Make the target a complete copy, unless it is one, and say what it contains."""
    if target.get_marker(MOVING) is None:
        # A target that was complete may have grown since. A closed source has not.
        if closure is not None and target.get_marker(_MOVE) == closure.token:
            return source.export_batches(), False
        if source.size() == target.size():
            contents = source.export_batches()
            if target.export_batches() == contents:
                finish_copy(source, target, closure)
                return contents, False
    total = source.size()

    def receive(batch: Batch) -> None:
        target.import_batch(batch)
        if batch.highest_key:
            report("Copying", batch.highest_key, total)

    def read_back(batch: Batch) -> None:
        if batch.highest_key:
            report("Verifying", batch.highest_key, total)

    contents = source.export_batches(receive)
    if target.export_batches(read_back) != contents:
        raise RecollectError(
            f"The copy of {source.path} differs from it. Nothing was removed. Check the disks and "
            "run the same command again."
        )
    finish_copy(source, target, closure)
    return contents, True


def finish_copy(source: Store, target: Store, closure: Closure | None) -> None:
    for name in CARRIED_MARKERS:
        target.set_marker(name, source.get_marker(name))
    if closure is not None:
        if source.closure() != closure:
            raise InvalidInput(f"{source.path} was opened again while it was moved.")
        target.set_marker(_MOVE, closure.token)
    target.set_closure(None)


def reopen(source: Store) -> None:
    """Let people write to a library again that was closed by a move."""
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(f"{source.path} is incomplete: a move into it was interrupted.")
    if source.closure() is None:
        raise InvalidInput(f"{source.path} is not closed.")
    source.set_closure(None)


def finish(target: Store) -> MoveResult | None:
    """Finish a move that was interrupted after the source was removed; None if there is none."""
    if target.get_marker(_MOVE) is None:
        return None
    target.set_marker(_MOVE, None)
    return MoveResult(target.export_batches(), True, True)


def abort(target: Store) -> None:
    """Remove what an interrupted move left. A complete library is never touched."""
    if target.get_marker(MOVING) is None and target.summaries(Filter(), "", 1, 0)[1]:
        raise InvalidInput(
            f"{target.path} is complete; there is no move to abort. Nothing was removed."
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
