"""Forget what a selection matches: preview it, or delete it for good.

A selection is evaluated document by document, and nothing is limited, so counts are exact. What
matches is deleted in batches, each in one transaction. If the process is killed, the same selection
forgets the rest. Copies in the archive are deleted before the batch, so that no interruption can
leave a copy of something the library no longer has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from recollect.errors import InvalidInput, NotFound
from recollect.index.background import PURGE_PATIENCE
from recollect.language.text import comparable, fold, identifier, truncate
from recollect.model.documents import Document, Passage
from recollect.model.forgetting import Selection
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import Filter
from recollect.progress import Progress
from recollect.store.base import Store
from recollect.store.values import Removal
from recollect.transfer.archive import Archive

BACKUPS = (
    "Backups, exports and files at the source still contain it. "
    "docs/forgetting.md says what to do about them."
)
"""What every report about forgetting must say."""

_EXAMPLES = 10
_EXAMPLE_CHARACTERS = 160
_MAX_BATCH_DOCUMENTS = 100
_MAX_BATCH_PASSAGES = 5_000


@dataclass(frozen=True, slots=True)
class Example:
    """One message or item that is selected."""

    conversation_id: str
    title: str
    kind: str
    project: str
    source: str
    message_id: str | None
    """None if the whole item, or only a title, is selected."""
    role: str | None
    created_at: datetime | None
    excerpt: str


@dataclass(slots=True)
class ForgetReport:
    """What a selection matches, and whether it was forgotten."""

    done: bool
    conversations: int = 0
    """Conversations of which nothing is left."""
    changed_conversations: int = 0
    """Conversations that lose some messages, their title or metadata."""
    messages: int = 0
    items: int = 0
    titles: int = 0
    """Titles that are removed from conversations which stay."""
    earlier_versions: int = 0
    """Versions, kept for undoing imports, that contain the text."""
    archived_files: int = 0
    """Files whose copies in the archive are deleted; 0 in a preview."""
    purge: str | None = None
    """`done` if the text is gone from all files of the library, else `pending`. None in a
    preview."""
    by_source: dict[str, int] = field(default_factory=dict)
    """Messages and items by source."""
    by_project: dict[str, int] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    note: str = BACKUPS

    def __bool__(self) -> bool:
        return bool(
            self.conversations or self.changed_conversations or self.items or self.earlier_versions
        )


@dataclass(frozen=True, slots=True)
class _Match:
    """What is selected of one document."""

    document: Document
    removal: Removal
    passages: tuple[Passage, ...]


def preview(store: Store, selection: Selection, progress: Progress | None = None) -> ForgetReport:
    """Count what a selection matches, with examples. Changes nothing."""
    report = ForgetReport(done=False)
    for found in matches(store, selection, progress):
        count(report, found)
    if selection.is_text_only:
        report.earlier_versions = store.delete_undo_states(state_matcher(selection), dry_run=True)
    return report


def forget(
    store: Store, archive: Archive, selection: Selection, progress: Progress | None = None
) -> ForgetReport:
    """Delete what a selection matches, with everything derived from it."""
    report = ForgetReport(done=True)
    if selection.is_text_only:
        selection.validate()
        report.earlier_versions = store.delete_undo_states(state_matcher(selection))
    batch: list[_Match] = []

    def forget_batch() -> None:
        for each in batch:
            name = (each.document.source, each.document.source_id)
            is_whole = each.removal.passages is None
            delete = archive.forget if is_whole else archive.stop_copying
            report.archived_files += delete(name)
        store.forget([each.removal for each in batch])
        for each in batch:
            count(report, each)
        batch.clear()

    for found in matches(store, selection, progress):
        batch.append(found)
        size = sum(len(each.passages) for each in batch)
        if len(batch) >= _MAX_BATCH_DOCUMENTS or size >= _MAX_BATCH_PASSAGES:
            forget_batch()
    if batch:
        forget_batch()
    report.purge = store.purge(PURGE_PATIENCE).state
    return report


# -- matching ---


def matches(store: Store, selection: Selection, progress: Progress | None) -> Iterator[_Match]:
    selection.validate()
    contains = text_matcher(selection)
    require_existing(store, selection)
    total = store.size()
    examined = 0
    filter = Filter(
        projects=selection.projects,
        sources=selection.sources,
        kinds=selection.kinds or KINDS,
        conversations=selection.conversations,
        after=selection.after,
        before=selection.before,
        hidden=True,
    )
    for document in store.iter_documents(filter):
        found = match(document, selection, contains)
        if found is not None:
            yield found
        examined += len(document.passages)
        if progress is not None:
            progress("Searching", min(examined, total), total)


def require_existing(store: Store, selection: Selection) -> None:
    """Raise NotFound if an id is unknown: a wrong id must not look like success."""
    for id_ in selection.conversations:
        store.document(id_, with_passages=False)
    if not selection.has_named_messages:
        return
    (conversation,) = selection.conversations
    if store.document(conversation, with_passages=False).kind != CONVERSATION:
        raise InvalidInput(
            f"{truncate(conversation, 80)!r} is not a conversation. Items are forgotten as a whole."
        )
    for id_ in filter(None, (*selection.messages, selection.first, selection.last)):
        store.passage_key(conversation, id_)


def match(
    document: Document, selection: Selection, contains: Callable[[str], bool]
) -> _Match | None:
    """What of a document a selection matches."""
    whole = _Match(document, Removal(document.id), document.passages)
    if not selection.of_messages:
        return whole

    def is_in(*values: Any) -> bool:
        """Whether any of these JSON values contains the text."""
        return any(map(contains, texts(values)))

    first, last = span(document, selection)
    passages = tuple(
        passage
        for passage in document.passages
        if (not selection.messages or identifier(passage.id) in selection.messages)
        and first <= passage.position <= last
        and is_within(passage.created_at, selection)
        and (
            not selection.has_pattern
            or is_in(passage.content, passage.metadata, passage.attachments, passage.citations)
        )
    )
    # If only some messages are searched, titles and metadata go only with one of them.
    is_narrowed = selection._replace(text="", pattern="").of_messages
    if document.kind != CONVERSATION:
        is_named = selection.has_pattern and not is_narrowed
        is_named = is_named and is_in(document.title, document.metadata)
        return whole if passages or is_named else None
    is_searched = selection.has_pattern and (bool(passages) or not is_narrowed)
    has_title = bool(document.title) and (
        (is_searched and contains(document.title)) or quotes_any(document.title, passages)
    )
    keys = tuple(key for key, value in document.metadata.items() if is_searched and is_in(value))
    if not passages and not has_title and not keys:
        return None
    ids = tuple(passage.id for passage in passages)
    return _Match(document, Removal(document.id, ids, has_title, keys), passages)


def is_within(moment: datetime | None, selection: Selection) -> bool:
    after, before = selection.after, selection.before
    if moment is None:
        return after is None and before is None
    return (after is None or moment >= after) and (before is None or moment <= before)


def quotes_any(title: str, passages: Iterable[Passage]) -> bool:
    """Whether a title is the beginning of a message."""
    beginning = " ".join(title.rstrip("….").split())
    size = 4 * len(beginning) + 1_000
    return any(" ".join(p.content[:size].split()).startswith(beginning) for p in passages)


def span(document: Document, selection: Selection) -> tuple[float, float]:
    """The first and last position of a span."""
    if selection.first is None or selection.last is None:
        return float("-inf"), float("inf")
    positions = {identifier(passage.id): passage.position for passage in document.passages}
    if selection.first not in positions or selection.last not in positions:
        raise NotFound("A message of the span has been deleted.")
    first, last = positions[selection.first], positions[selection.last]
    if first > last:
        raise InvalidInput(
            f"Message {truncate(selection.first, 80)!r} comes after "
            f"{truncate(selection.last, 80)!r}. Give the first message of the span first."
        )
    return first, last


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)


# -- texts ---


def text_matcher(selection: Selection) -> Callable[[str], bool]:
    """A function that says whether a text contains the words and the pattern of a selection.

    RE2 takes time linear in the length of the text, whatever the pattern is.
    """
    import re2

    patterns = []
    if selection.text:
        words = r"\s+".join(map(re2.escape, fold(selection.text).split()))
        edge = r"[^\pL\pN_]"
        patterns.append((_compile(rf"(?:\A|{edge}){words}(?:\z|{edge})"), True))
    if selection.pattern:
        patterns.append((_compile(selection.pattern), False))

    def contains(text: str) -> bool:
        for pattern, is_folded in patterns:
            form = comparable(text) if is_folded else text
            if pattern.search(form.encode("utf-8", "surrogatepass")) is None:
                return False
        return True

    return contains


def state_matcher(selection: Selection) -> Callable[[str], bool]:
    """The same for the JSON of a state that undoing an import would restore."""
    contains = text_matcher(selection)
    return lambda state: any(map(contains, texts(json.loads(state))))


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise InvalidInput(
            f"The pattern is not a valid RE2 regular expression: {reason}."
        ) from None


# -- the report ---


def count(report: ForgetReport, match: _Match) -> None:
    document = match.document
    number = len(match.passages)
    if document.kind != CONVERSATION:
        report.items += 1
        number = 1
    elif number == len(document.passages):
        report.messages += number
        report.conversations += 1
    else:
        report.messages += number
        report.changed_conversations += 1
        report.titles += match.removal.has_title
    for counts, name in (
        (report.by_source, document.source),
        (report.by_project, document.project),
    ):
        if number:
            counts[name] = counts.get(name, 0) + number
    if len(report.examples) < _EXAMPLES:
        report.examples.append(example(match))


def example(match: _Match) -> Example:
    document = match.document
    passage = Passage("", None, document.title, created_at=document.updated_at)
    message_id = None
    if match.passages:
        passage = match.passages[0]
        if document.kind == CONVERSATION:
            message_id = passage.id
    excerpt = truncate(
        " ".join(passage.content[: 4 * _EXAMPLE_CHARACTERS].split()), _EXAMPLE_CHARACTERS
    )
    return Example(
        document.id,
        document.title,
        document.kind,
        document.project,
        document.source,
        message_id,
        passage.role,
        passage.created_at or document.updated_at,
        excerpt,
    )
