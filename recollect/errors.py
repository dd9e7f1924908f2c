"""What can go wrong, one sentence each. Every message says what to do next."""

LIST_ADVICE = "`recollect list` shows what there is."
DAMAGE_ADVICE = (
    "Run `recollect doctor` to see what is wrong, and `recollect salvage` to rescue what can be "
    "read."
)
"""The end of messages about damage."""


class RecollectError(Exception):
    """The base of every error a caller of Recollect can meet."""


class NotFound(RecollectError):
    """The conversation, message or receipt asked for is not in this library."""


class InvalidInput(RecollectError):
    """An argument cannot be used; the message names it and what is accepted."""


class Conflict(InvalidInput):
    """The id is already used for something else."""


class OutdatedPosition(Conflict):
    """Messages were added since the caller read the conversation; nothing was written."""


class AmbiguousId(InvalidInput):
    """Several ids begin with the given characters."""

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.candidates = candidates


class UnknownFormat(RecollectError):
    """No importer recognises the file."""


class UnsafeFile(RecollectError):
    """A file or archive was refused before it could do harm."""


class ImportStopped(RecollectError):
    """An import was stopped before its end; what it has saved is kept."""


class ImportUndone(RecollectError):
    """An import was undone while it was running, so it ended; nothing of it is stored."""


class IndexingStopped(RecollectError):
    """Indexing was stopped before its end; what it has saved is kept."""


class StoreUnavailable(RecollectError):
    """The database server cannot be reached, or went away; what was saved stays saved."""


class LibraryMoved(StoreUnavailable):
    """The library is being moved, or is now at another place; nothing was written here."""


class LockedLibrary(StoreUnavailable):
    """The library is encrypted, and cannot be decrypted with the settings of this process."""


class StoreBusy(RecollectError):
    """Another process held the library's write lock past the deadline."""


class StorageFull(RecollectError):
    """The disk of the library is full. Nothing was written; reading and searching still work."""


class ReadOnlyLibrary(RecollectError):
    """The library is open for reading only. Nothing was written."""


class SearchTimeout(RecollectError):
    """A search ran into its deadline; this is never reported as "no results"."""

    def __init__(
        self,
        message: str = "The search took too long and was stopped. Use rarer words or a narrower "
        "filter.",
    ) -> None:
        super().__init__(message)


class NewerLibrary(RecollectError):
    """The library was written by a newer version of Recollect."""


class DamagedLibrary(RecollectError):
    """The database file cannot be read as a library."""


class DamagedBackup(RecollectError):
    """A backup is damaged, incomplete, or was changed."""
