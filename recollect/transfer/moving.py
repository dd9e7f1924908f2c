"""Move a library to another place: copy it, verify the copy, then remove the original if asked to.

The copy is a snapshot of the source. It is read back, and both are compared by a hash of every
value. If the source changed meanwhile, the changes are copied too. Until all of that is complete
the target is marked as incomplete, and the same call resumes the move.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from recollect.errors import DamagedLibrary, InvalidInput, RecollectError
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.errors import reason_of
from recollect.store.sql.transfer import ARRIVED, MOVING
from recollect.store.values import Batch, Contents

_ROUNDS = 3
_TWIN = "twin"

Progress = Callable[[str, int, int], None]
"""Called with ("Copying" or "Verifying", messages done, total messages)."""


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The result of a move: both libraries were identical."""

    contents: Contents
    copied: bool
    """False if the copy was already complete."""
    removed: bool
    """Whether the original was removed."""


def move(
    source: Store, target: Store, *, remove: bool = False, progress: Progress | None = None
) -> MoveResult:
    """Copy a library to a new place, or resume that. The source is removed only with `remove`."""
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(
            f"{source.path} is incomplete: a move into it was interrupted. Finish that move first."
        )
    if _is_same(source, target):
        raise InvalidInput(f"FROM and TO are the same library: {source.path}.")
    contents = _existing_copy(source, target)
    copied = contents is None
    if contents is None:
        try:
            contents = _copy(source, target, progress or (lambda *_: None))
        except DamagedLibrary as error:
            raise _damaged_source(source, error) from error
    if remove:
        if copied:
            target.set_marker(MOVING, ARRIVED)
        source.remove_library(contents)
    if copied:
        target.set_marker(MOVING, None)
    return MoveResult(contents, copied, remove)


def finish(target: Store) -> MoveResult | None:
    """Finish a move that was interrupted after the source was removed; None if there is none."""
    if target.get_marker(MOVING) != ARRIVED:
        return None
    contents = target.export_batches()
    target.set_marker(MOVING, None)
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
    target.remove_library()


def _damaged_source(source: Store, error: DamagedLibrary) -> DamagedLibrary:
    """An error that names what is damaged."""
    reason = reason_of(error)
    damaged = source.verify().damaged
    if damaged:
        reason = damaged[0]
    return DamagedLibrary(
        f"{source.path} is damaged and cannot be moved: {reason}. Nothing was removed. Restore a "
        "backup with `recollect restore`, or rescue what can be read with `recollect salvage`. "
        "Then discard the incomplete copy with `recollect move FROM TO --abort`."
    )


def _is_same(source: Store, target: Store) -> bool:
    """Whether two places are one library: then a marker set in one appears in the other."""
    token = secrets.randbelow(1 << 31)
    target.set_marker(_TWIN, token)
    try:
        return source.get_marker(_TWIN) == token
    finally:
        target.set_marker(_TWIN, None)


def _existing_copy(source: Store, target: Store) -> Contents | None:
    """The contents of the target, if it is already a complete copy of the source."""
    if target.get_marker(MOVING) is not None or source.size() != target.size():
        return None
    contents = target.export_batches()
    if source.export_batches() != contents:
        return None
    return contents


def _copy(source: Store, target: Store, report: Progress) -> Contents:
    is_same = False
    correction: str | None = None
    for _ in range(_ROUNDS):
        before = _fingerprint(source)
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
        is_same = target.export_batches(read_back) == contents
        if is_same and _fingerprint(source) == before:
            return contents
    if is_same:
        raise RecollectError(
            f"{source.path} kept changing while it was copied. Stop the programs that use it, then "
            "run the same command again."
        )
    detail = ""
    if correction:
        detail = f": {correction}"
    raise RecollectError(
        f"The copy of {source.path} differs from it and could not be corrected{detail}. "
        "Nothing was removed."
    )


def _fingerprint(store: Store) -> tuple[object, ...]:
    """Values that change when a library changes, without reading all of it."""
    return store.size(), store.receipts(), store.summaries(Filter(), "", 1, 0)
