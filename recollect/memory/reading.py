"""Reading conversations as Markdown: whole, by lines, or where an observation was made.

Lines are always counted in the full text, with the results of tools, because observations, search
results and other agents refer to these lines. The results of tools are folded only in what is
returned: one line stands for all lines of a result. So the lines of an observation are valid with
and without the results, and a reader can go on at any line with or without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import identifier, storable, truncate
from recollect.memory.formats import (
    TOKEN_LENGTH,
    TOOL_OPTIONS,
    OptionNames,
    conversation_id,
    conversation_path,
    count,
    file_name,
    is_observation_id,
)
from recollect.memory.lookup import observations_by_id
from recollect.memory.observe import ConversationText, conversation_text
from recollect.memory.observe.exchanges import Exchange, split_exchanges
from recollect.memory.observe.work import PATHS, calls_of_results, parse_arguments
from recollect.memory.results import ObservationHit
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Document, Passage, Summary
from recollect.model.kinds import CONVERSATION
from recollect.store.base import Store

MAX_READ_LENGTH = 100_000
"""How many characters of a conversation one call of `read` returns."""
MAX_TOKENS = MAX_READ_LENGTH // TOKEN_LENGTH
DEFAULT_READ_TOKENS = 2_000
"""The budget of agents that do not give one."""
MIN_TOKENS = 100
"""The least budget. It leaves room for the notes at the end."""
_PATH_WITH_LINES = re.compile(r"(.+\.jsonl):([0-9]{1,9})-([0-9]{1,9})", re.DOTALL)
_NOTES_LENGTH = 240  # characters of a budget that are kept for the notes


# -- texts for an audience -----------------------------------------------------


class ConversationTexts:
    """The texts of conversations as one audience reads them. Each is read once."""

    def __init__(self, store: Store, audience: Audience) -> None:
        self._store = store
        self.audience = audience
        self._documents: dict[str, Document] = {}
        """The conversations that were read, but whose texts were not needed yet."""
        self._texts: dict[str, ConversationText | None] = {}

    def read(self, conversations: Iterable[str]) -> None:
        """Read several conversations at once. Their texts are made when they are needed."""
        ids = [
            id_ for id_ in conversations if id_ not in self._texts and id_ not in self._documents
        ]
        if ids:
            documents = self._store.documents(ids)
            self._documents |= {
                id_: documents[identifier(id_)] for id_ in ids if identifier(id_) in documents
            }

    def text(self, conversation: str) -> ConversationText | None:
        """The text of a conversation; None if there is no such conversation."""
        if conversation not in self._texts:
            self.read([conversation])
            document = self._documents.pop(conversation, None)
            text = None
            if document is not None:
                text = conversation_text(visible_part(document, self.audience))
            self._texts[conversation] = text
        return self._texts[conversation]

    def is_loaded(self, conversation: str) -> bool:
        return conversation in self._texts


def visible_part(document: Document, audience: Audience) -> Document:
    """A conversation as this audience reads it. Masks are left to `conversation_text`."""
    if audience is Audience.AGENT_MASKED or not any(map(is_human_only, document.passages)):
        return document
    passages = []
    for passage in document.passages:
        if not is_human_only(passage):
            passages.append(passage)
        elif audience is Audience.PERSON:  # without its mark, so that it is not masked
            passages.append(passage._replace(visibility="all", metadata={}))
    return replace(document, passages=tuple(passages))


def exchange_lines(text: ConversationText, message: str) -> tuple[int, int] | None:
    """The lines of the exchange with this message; None if the message is on another branch."""
    lines = text.passages.get(message)
    if lines is None:
        return None
    for first, last in text.exchanges:
        if first <= lines[0] <= last:
            return first, last
    return lines


def with_lines(hit: ObservationHit, texts: ConversationTexts) -> ObservationHit:
    """The observation with its lines in the text that the audience reads."""
    if texts.audience is Audience.AGENT_MASKED:  # the stored lines are those of the masked text
        return hit
    observation = hit.observation
    text = texts.text(observation.conversation)
    if text is None:
        return hit
    question_lines = None
    if observation.passages:
        question_lines = text.passages.get(observation.passages[0])
    lines = text.span(observation.passages)
    return hit._replace(
        observation=replace(observation, lines=lines, question_lines=question_lines)
    )


# -- reading -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read of a conversation. Lines are counted from 1 and inclusive."""

    start: int | None = None
    end: int | None = None
    tool_results: bool = False
    """Return the results of tools. Otherwise one line stands for each of them."""
    max_tokens: int | None = None
    """The budget of the answer. Without it, only `MAX_READ_LENGTH` limits the answer."""
    names: OptionNames = TOOL_OPTIONS


def read_conversation(store: Store, path: str, options: ReadOptions, audience: Audience) -> str:
    """The lines of a conversation, and notes on what is missing and how to get it.

    `path` is that of a conversation, perhaps with lines (`/my-api/s1.jsonl:40-80`), or the id of an
    observation: then its lines are read. Lines in `options` come first. Raises NotFound,
    InvalidInput.
    """
    start, end = options.start, options.end
    is_whole = start is None and end is None
    match = _PATH_WITH_LINES.fullmatch(path.strip())
    if match is not None:
        path = match[1]
        if is_whole:
            start, end = int(match[2]), int(match[3])
    observation = None
    if is_observation_id(path):
        observation = observations_by_id(store, [path])[path].observation
    id_ = observation.conversation if observation else find_conversation(store, path).id
    try:
        document = visible_part(store.document(id_), audience)
    except NotFound:
        raise missing_path(path) from None
    exchanges = split_exchanges(document)
    text = conversation_text(document, exchanges)
    notes = []
    if observation is not None and is_whole:
        start, end = text.span(observation.passages)
        source = conversation_path(document.project, document.id)
        notes.append(f"{source} has {len(text.lines)} lines. These are {start} to {end}.")
    start, end = line_range(start, end, len(text.lines))
    folds = [] if options.tool_results else tool_result_folds(exchanges, text, document.project)
    return _excerpt(text.lines, start, end, folds, notes, options)


def find_conversation(store: Store, path: str) -> Summary:
    """The conversation at a path. Raises NotFound."""
    id_ = conversation_id(path)
    try:
        summary = store.summary(id_) if id_ is not None else None
    except NotFound:
        summary = None
    if summary is None or summary.kind != CONVERSATION:
        raise missing_path(path)
    return summary


def missing_path(path: str) -> NotFound:
    return NotFound(f"File not found: {truncate(storable(path), 500)}")


def line_range(start: int | None, end: int | None, total: int) -> tuple[int, int]:
    start = 1 if start is None else start
    problem = ""
    if start < 1:
        problem = f"startLine must be at least 1; there are {total} lines."
    elif end is not None and end < start:
        problem = f"endLine must not be less than startLine; there are {total} lines."
    elif start > total:
        problem = f"startLine is {start}, but there are only {total} lines."
    if problem:
        raise InvalidInput(f"Invalid line range: {problem}")
    return start, total if end is None else min(end, total)


class Fold(NamedTuple):
    """Lines that are replaced by a label."""

    first: int
    last: int
    label: str


def _excerpt(
    lines: Sequence[str],
    start: int,
    end: int,
    folds: Sequence[Fold],
    notes: list[str],
    options: ReadOptions,
) -> str:
    """The lines, as far as there is room, with notes on what is missing."""
    room = MAX_READ_LENGTH
    if options.max_tokens is not None:
        tokens = max(options.max_tokens, MIN_TOKENS)
        room = min(room, tokens * TOKEN_LENGTH - _NOTES_LENGTH)
    excerpt: list[str] = []
    last = start - 1
    has_labels = False
    for number, line, is_label in folded(lines, start, end, folds):
        if excerpt and len(line) + 1 > room:
            break
        if len(line) > room:
            notes.append(f"Line {number} is cut; it has {len(line):,} characters.")
            needed = min(-(-(len(line) + _NOTES_LENGTH) // TOKEN_LENGTH), MAX_TOKENS)
            if options.max_tokens is not None and options.max_tokens < needed:
                notes.append(f"To read more of it: {options.names.max_tokens.format(needed)}.")
            line = line[: max(room - 1, 1)] + "…"
        excerpt.append(line)
        room -= len(line) + 1
        last = number
        has_labels = has_labels or is_label
    if has_labels:
        notes.append(f"Tool results are omitted. To read them: {options.names.tool_results}.")
    if last < end:
        next_start = options.names.start.format(last + 1)
        notes.append(f"Lines {start} to {last} of {len(lines)}. To go on: {next_start}")
    text = "\n".join(excerpt)
    return f"{text}\n\n[{' '.join(notes)}]" if notes else text


def folded(
    lines: Sequence[str], start: int, end: int, folds: Sequence[Fold]
) -> Iterator[tuple[int, str, bool]]:
    """The lines to return: the number of the last line, the text, and whether it is a label."""
    position = start
    for fold in folds:
        if fold.last < position:
            continue
        if fold.first > end:
            break
        for number in range(position, fold.first):
            yield number, lines[number - 1], False
        position = min(fold.last, end) + 1
        yield position - 1, fold.label, True
    for number in range(position, end + 1):
        yield number, lines[number - 1], False


# -- results of tools ----------------------------------------------------------

_ARGUMENTS = ("command", "cmd", "pattern", "query", "q", "url", *PATHS)
"""The arguments that tell the most, in this order."""
_MAX_ARGUMENT = 60


class ToolLabel(NamedTuple):
    """What a tool did, in short: `Read src/server.ts`, `Bash npm test`."""

    text: str
    is_whole: bool
    """Whether it contains everything that the call says."""


def tool_result_folds(
    exchanges: Sequence[Exchange], text: ConversationText, project: str
) -> list[Fold]:
    """The lines of results of tools, and of calls that the label repeats."""
    folds = []
    for exchange in exchanges:
        calls = calls_of_results(exchange.passages)
        for number, passage in enumerate(exchange.passages):
            if passage.type != "tool_result" or is_human_only(passage):
                continue
            call = calls.get(passage.id)
            label = tool_label(passage, call, project)
            first, last = text.passages[passage.id]
            size = count(last - first, "line")
            name = label.text
            if call is not None and label.is_whole and call is exchange.passages[number - 1]:
                first, _ = text.passages[call.id]
            elif call is not None:  # it is read above
                name = "Result"
            folds.append(Fold(first, last, f"[{name}, {size}]"))
    return folds


def tool_label(result: Passage, call: Passage | None, project: str) -> ToolLabel:
    """What a tool did. For a call that only people may read, only the name of the tool."""
    tool = result.tool or (call.tool if call else "") or ""
    content = call.content if call and call.content != MASK else ""
    name = tool.rsplit("__", 1)[-1]
    if not name:
        return ToolLabel("Tool result", False)
    argument = main_argument(parse_arguments(content), content, project)
    first, _, others = argument.partition("\n")
    short = " ".join(first.split())
    if len(short) > _MAX_ARGUMENT or others:
        short = short[: _MAX_ARGUMENT - 1].rstrip() + "…"
    if short in ("", tool):
        return ToolLabel(name, False)
    is_whole = short == argument and "\n" not in content.strip()
    return ToolLabel(f"{name} {short}", is_whole)


def main_argument(arguments: Mapping[str, str], content: str, project: str) -> str:
    for name in _ARGUMENTS:
        value = arguments.get(name, "").strip()
        if value:
            return file_name(value, project) if name in PATHS else value
    return next(iter(arguments.values()), content).strip()
