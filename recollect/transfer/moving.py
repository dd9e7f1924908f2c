"""One library moved into another place: copied, verified, and only then, if wanted, removed.

The copy is what the source holds at one moment. It is read back and both are
compared by a hash over every value; where the source was written to in the
meantime, what is new is copied too. Until all of that is done the target is
marked as unfinished, and the same call again goes on with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from recollect.errors import InvalidInput, RecollectError
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.sql.transfer import ARRIVED, MOVING
from recollect.store.values import Batch, Contents

_ROUNDS = 3
_TWIN = "twin"

Progress = Callable[[str, int, int], None]
"""Called with ("Copying" or "Verifying", messages done, messages in all) while it goes on."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did, once both libraries were found to be the same."""

    contents: Contents
    copied: bool
    """False where everything was there already."""
    removed: bool
    """Whether the library that was moved is gone now."""


def move(
    source: Store, target: Store, *, remove: bool = False, progress: Progress | None = None
) -> Moved:
    """Copy a library into a new one, or go on with that. The source is removed only with `remove`."""
    if source.get_marker(MOVING) is not None:
        raise InvalidInput(
            f"{source.path} is not whole: a move into it was not finished. Finish that one first."
        )
    if _is_same(source, target):
        raise InvalidInput(f"That is the same library twice: {source.path}.")
    contents = _already(source, target)
    copied = contents is None
    if contents is None:
        contents = _copy(source, target, progress or (lambda *_: None))
    if remove:
        if copied:
            target.set_marker(MOVING, ARRIVED)
        source.remove_library(contents)
    if copied:
        target.set_marker(MOVING, None)
    return Moved(contents, copied, remove)


def finish(target: Store) -> Moved | None:
    """End a move whose source was removed just before it was broken off; None where there is none."""
    if target.get_marker(MOVING) != ARRIVED:
        return None
    contents = target.export_batches()
    target.set_marker(MOVING, None)
    return Moved(contents, True, True)


def abort(target: Store) -> None:
    """Take away what an unfinished move has left. A library that is whole is never touched."""
    state = target.get_marker(MOVING)
    if state is None and target.summaries(Filter(), "", 1, 0)[1]:
        raise InvalidInput(
            f"{target.path} is whole; no move into it is unfinished. Nothing was taken away."
        )
    if state == ARRIVED:
        raise InvalidInput(
            f"{target.path} has arrived, and may be the only copy by now. Run the same move again to finish it."
        )
    target.remove_library()


def _is_same(source: Store, target: Store) -> bool:
    """Whether two addresses lead to one library: what is noted in the one is then in the other."""
    token = secrets.randbelow(1 << 31)
    target.set_marker(_TWIN, token)
    try:
        return source.get_marker(_TWIN) == token
    finally:
        target.set_marker(_TWIN, None)


def _already(source: Store, target: Store) -> Contents | None:
    """What a whole target holds, if that is just what the source holds."""
    if target.get_marker(MOVING) is not None or source.size() != target.size():
        return None
    contents = target.export_batches()
    return contents if source.export_batches() == contents else None


def _copy(source: Store, target: Store, report: Progress) -> Contents:
    same, corrected = False, None
    for _ in range(_ROUNDS):
        before = _signs(source)
        total = source.size()

        def receive(batch: Batch, total: int = total) -> None:
            nonlocal corrected
            corrected = target.import_batch(batch) or corrected
            if batch.highest_key:
                report("Copying", batch.highest_key, total)

        def read_back(batch: Batch, total: int = total) -> None:
            if batch.highest_key:
                report("Verifying", batch.highest_key, total)

        sent = source.export_batches(receive)
        same = target.export_batches(read_back) == sent
        if same and _signs(source) == before:
            return sent
    if same:
        raise RecollectError(
            f"{source.path} was written to all the time while it was copied. Stop the programs that use it, then run "
            "the same command again."
        )
    raise RecollectError(
        f"The copy of {source.path} differs from it and could not be put right"
        f"{f': {corrected}' if corrected else ''}. Nothing was removed."
    )


def _signs(store: Store) -> tuple[object, ...]:
    """What changes when a library is written to, as far as it can be told without reading it."""
    return store.size(), store.receipts(), store.summaries(Filter(), "", 1, 0)
