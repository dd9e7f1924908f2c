"""Reading conversations as Markdown: whole, by lines, or where an observation was made.

Lines are always counted in the full text, with the results of tools, because observations, search
results and other agents refer to these lines. The results of tools are folded only in what is
returned: one line stands for all lines of a result. So the lines of an observation are valid with
and without the results, and a reader can go on at any line with or without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import storable, truncate
from recollect.memory.formats import TOKEN_LENGTH, TOOL_OPTIONS, OptionNames, count
from recollect.memory.lookup import observations_by_id
from recollect.memory.names import conversation_id, conversation_path, is_observation_id
from recollect.memory.observe import ConversationText, conversation_text
from recollect.memory.observe.exchanges import Exchange, split_exchanges
from recollect.memory.reading.texts import visible_document
from recollect.memory.reading.tool_labels import calls_of_results, tool_label
from recollect.model.audience import Audience, is_human_only
from recollect.model.documents import Summary
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


class Fold(NamedTuple):
    """Lines that are replaced by a label."""

    first: int
    last: int
    label: str


def read_conversation(store: Store, path: str, options: ReadOptions, audience: Audience) -> str:
    """The lines of a conversation, and notes on what is missing and how to get it.

    `path` is that of a conversation, perhaps with lines (`/my-api/s1.jsonl:40-80`), or the id of an
    observation: then its lines are read. Lines in `options` come first. Raises NotFound,
    InvalidInput.
    """
    path, options = _split_lines(path, options)
    observation = None
    if is_observation_id(path):
        observation = observations_by_id(store, [path])[path].observation
        id_ = observation.conversation
    else:
        id_ = find_conversation(store, path).id
    document = visible_document(store, id_, audience)
    if document is None:
        raise _missing_path(path)
    exchanges = split_exchanges(document)
    text = conversation_text(document, exchanges)
    start, end = options.start, options.end
    notes = []
    if observation is not None and start is None and end is None:
        start, end = text.span(observation.passages)
        source = conversation_path(document.project, document.id)
        notes.append(f"{source} has {len(text.lines)} lines. These are {start} to {end}.")
    folds: list[Fold] = []
    if not options.tool_results:
        folds = _tool_result_folds(exchanges, text, document.project)
    options = replace(options, start=start, end=end)
    return _excerpt(text.lines, options, folds, notes)


def _split_lines(path: str, options: ReadOptions) -> tuple[str, ReadOptions]:
    """A path without its lines, and the options with them."""
    match = _PATH_WITH_LINES.fullmatch(path.strip())
    if match is None:
        return path, options
    if options.start is None and options.end is None:
        options = replace(options, start=int(match[2]), end=int(match[3]))
    return match[1], options


def find_conversation(store: Store, path: str) -> Summary:
    """The conversation at a path. Raises NotFound."""
    id_ = conversation_id(path)
    if id_ is None:
        raise _missing_path(path)
    try:
        summary = store.summary(id_)
    except NotFound:
        raise _missing_path(path) from None
    if summary.kind != CONVERSATION:
        raise _missing_path(path)
    return summary


def _missing_path(path: str) -> NotFound:
    return NotFound(f"File not found: {truncate(storable(path), 500)}")


def _line_range(start: int | None, end: int | None, total: int) -> tuple[int, int]:
    if start is None:
        start = 1
    if start < 1:
        raise InvalidInput(
            f"Invalid line range: startLine must be at least 1; there are {total} lines."
        )
    if end is not None and end < start:
        raise InvalidInput(
            f"Invalid line range: endLine must not be less than startLine; there are {total} lines."
        )
    if start > total:
        raise InvalidInput(
            f"Invalid line range: startLine is {start}, but there are only {total} lines."
        )
    if end is None:
        return start, total
    return start, min(end, total)


# -- results of tools ------------------------------------------------------------


def _tool_result_folds(
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


def _folded(
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


# -- the budget ------------------------------------------------------------------


def _cut_note(number: int, line: str, options: ReadOptions) -> str:
    """That a line is cut, and the budget with which more of it is returned."""
    note = f"Line {number} is cut; it has {len(line):,} characters."
    needed = min(-(-(len(line) + _NOTES_LENGTH) // TOKEN_LENGTH), MAX_TOKENS)
    if options.max_tokens is None or options.max_tokens >= needed:
        return note
    return f"{note} To read more of it: {options.names.max_tokens.format(needed)}."


def _room(options: ReadOptions) -> int:
    """How many characters of the conversation may be returned."""
    if options.max_tokens is None:
        return MAX_READ_LENGTH
    tokens = max(options.max_tokens, MIN_TOKENS)
    return min(MAX_READ_LENGTH, tokens * TOKEN_LENGTH - _NOTES_LENGTH)


def _excerpt(
    lines: Sequence[str], options: ReadOptions, folds: Sequence[Fold], notes: Sequence[str]
) -> str:
    """The lines, as far as there is room, with notes on what is missing."""
    start, end = _line_range(options.start, options.end, len(lines))
    room = _room(options)
    notes = list(notes)
    excerpt: list[str] = []
    last = start - 1
    has_labels = False
    for number, line, is_label in _folded(lines, start, end, folds):
        if excerpt and len(line) + 1 > room:
            break
        if len(line) > room:
            notes.append(_cut_note(number, line, options))
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
    if not notes:
        return text
    return f"{text}\n\n[{' '.join(notes)}]"
