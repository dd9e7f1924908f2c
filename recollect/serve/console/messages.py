"""A window of a conversation: its messages as HTML, and tool calls with their results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.documents import Document, Json, Passage, View
from recollect.model.documents import MessageView as Step
from recollect.model.labels import UNTITLED, readable_title
from recollect.serve.console.markup import rendering
from recollect.serve.console.markup.diffs import FileDiff
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

WINDOW = 40
"""Messages per request."""
LOOKAROUND = 20
"""A result may be this many messages after its call."""
_WINDOW_CHARS = 120_000  # beyond this, the messages of a window are cut short
_SHORT_MESSAGE_CHARS = 1_500
_SUMMARY_CHARS = 140
DONE, FAILED, RUNNING, NO_RESULT = "done", "failed", "running", "no result"
_RUNNING_FOR = timedelta(hours=1)  # a call that is older has been abandoned
_LONGEST = timedelta(days=1)
_ID_NAMES = ("tool_use_id", "call_id", "tool_call_id")
_FAILURES = frozenset(("error", "failed", "failure", "cancelled", "canceled", "timeout"))
_SUMMARY = re.compile(
    r"^(?:command|cmd|file_path|notebook_path|path|pattern|query|url|description|prompt):"
    r"[ \n](.+)$",
    re.MULTILINE,
)
_JSON_SUMMARY = re.compile(
    r'"(?:command|cmd|file_path|path|pattern|query|url|description|prompt)": ?"((?:[^"\\]|\\.)+)"'
)


class ToolResult(NamedTuple):
    """The result of a tool call, shown in the row of the call."""

    passage: Passage
    body: Markup
    hidden_chars: int


class ToolRow(NamedTuple):
    """A tool call and what came of it, in one row."""

    summary: str
    diffs: Sequence[FileDiff]
    status: str
    duration: str
    """Empty if it is not known."""
    result: ToolResult | None


class MessageView(NamedTuple):
    passage: Passage
    number: int
    siblings: Sequence[str]
    """The versions of this message, if the conversation branches here."""
    sibling_index: int
    body: Markup = Markup("")
    hidden_chars: int = 0
    """Characters that are not shown yet."""
    tool: ToolRow | None = None
    """For tool calls."""
    call_index: int | None = None
    """For a result that is shown in the row of its call: the index of the call."""


class ConversationWindow(NamedTuple):
    """Consecutive messages on one path through a conversation."""

    document: Document
    label: str
    """The title, or what stands for it."""
    messages: Sequence[MessageView]
    start: int
    total: int
    size: str
    """How many messages there are, on all branches and on this path."""
    through: str
    """The message that the path goes through; empty for the main path."""
    target: str
    """The message to scroll to, if any."""

    @property
    def suggests_title(self) -> bool:
        """Whether the label is a suggestion: the conversation has words, but no title."""
        return not readable_title(self.document.title) and self.label != UNTITLED

    @property
    def end(self) -> int:
        return self.start + len(self.messages)


def open_conversation(
    library: Library,
    principal: Principal,
    conversation_id: str,
    *,
    through: str = "",
    around: str = "",
    start: int | None = None,
    limit: int = WINDOW,
) -> ConversationWindow:
    """A window of a conversation. Messages that no longer exist are ignored as targets."""
    try:
        view = library.view(
            conversation_id,
            through=through or None,
            around=around or None,
            start=start,
            limit=limit,
        )
    except NotFound:
        if not through and not around:
            raise
        through = around = ""
        view = library.view(conversation_id, start=start, limit=limit)
    document = view.document
    return ConversationWindow(
        document,
        library.label(document.id, document.title),
        _WindowRenderer(library, view, through, principal).messages(),
        view.start,
        view.total,
        view.size,
        through,
        around,
    )


def render_message(passage: Passage, max_chars: int, page: rendering.Page) -> tuple[Markup, int]:
    """A message's text as HTML, and how many characters were left out."""
    text = rendering.beginning(passage.content, max_chars)
    hidden_chars = len(passage.content) - len(text)
    if passage.type in ("tool_call", "tool_result"):
        return rendering.plain(text), hidden_chars
    return page.markdown(text), hidden_chars


class _WindowRenderer:
    """Renders the messages of one window, within its limits of size and time."""

    def __init__(self, library: Library, view: View, through: str, principal: Principal) -> None:
        self._view = view
        self._steps = dict(enumerate(view.messages, view.start))
        self._calls = self._read_calls(library, through)
        self._results = {call: result for result, call in self._calls.items()}
        self._audience = principal.audience
        self._chars_left = _WINDOW_CHARS
        self._page = rendering.Page()

    def _read_calls(self, library: Library, through: str) -> dict[int, int]:
        """Which results belong to which calls, also across the edges of the window."""
        view, steps = self._view, self._steps
        calls = pair_results(steps)
        types = {index: step.passage.type for index, step in steps.items()}
        spans = []
        if "tool_result" in (types[index] for index in types.keys() - calls.keys()):
            first = max(0, view.start - LOOKAROUND)
            spans.append((first, view.start - first))
        if "tool_call" in (types[index] for index in types.keys() - set(calls.values())):
            end = view.start + len(view.messages)
            spans.append((end, min(LOOKAROUND, view.total - end)))
        for start, limit in spans:
            if limit <= 0:
                continue
            try:
                other = library.view(
                    view.document.id, through=through or None, start=start, limit=limit
                )
            except NotFound:  # the conversation has changed
                continue
            self._steps = steps | dict(enumerate(other.messages, other.start))
            steps = self._steps
        return pair_results(steps)

    def messages(self) -> list[MessageView]:
        return [
            self._message(index, step)
            for index, step in enumerate(self._view.messages, self._view.start)
        ]

    def _message(self, index: int, step: Step) -> MessageView:
        passage = mask_passage(step.passage, self._audience)
        view = MessageView(passage, index, step.siblings, step.index)
        if index in self._calls:
            return view._replace(call_index=self._calls[index])
        if passage.type != "tool_call":
            body, hidden_chars = self._render(passage)
            return view._replace(body=body, hidden_chars=hidden_chars)
        diffs = self._page.edit_diffs(
            passage.tool or "", passage.content[: rendering.MARKDOWN_CHARS]
        )
        result = None
        if index in self._results:
            answer = mask_passage(self._steps[self._results[index]].passage, self._audience)
            result = ToolResult(answer, *self._render(answer))
        status, duration = outcome(passage, result and result.passage)
        summary = summarize(passage.content.removeprefix(f"{passage.tool}\n"), diffs)
        view = view._replace(tool=ToolRow(summary, diffs, status, duration, result))
        if diffs:
            self._chars_left -= len(passage.content)
            return view
        body, hidden_chars = self._render(passage)
        return view._replace(body=body, hidden_chars=hidden_chars)

    def _render(self, passage: Passage) -> tuple[Markup, int]:
        max_chars = rendering.MESSAGE_CHARS if self._chars_left > 0 else _SHORT_MESSAGE_CHARS
        body, hidden_chars = render_message(passage, max_chars, self._page)
        self._chars_left -= len(passage.content) - hidden_chars
        return body, hidden_chars


# -- tools ---


def pair_results(steps: Mapping[int, Step]) -> dict[int, int]:
    """The index of the call for the index of each result."""
    calls_by_id: dict[str, int] = {}
    last: tuple[int, Passage] | None = None
    pairs: dict[int, int] = {}
    for index in sorted(steps):
        passage = steps[index].passage
        if passage.type == "tool_call":
            call_id = _call_id(passage) or passage.metadata.get("id")
            if isinstance(call_id, str) and call_id:
                calls_by_id[call_id] = index
        elif passage.type == "tool_result":
            call = calls_by_id.pop(_call_id(passage), None)
            if call is None and last is not None and answers(passage, last[1]):
                call = last[0]
            if call is not None and index - call <= LOOKAROUND:
                pairs[index] = call
        last = (index, passage) if index + 1 in steps else None
    return pairs


def answers(result: Passage, call: Passage) -> bool:
    """Whether a result without an id answers the message before it."""
    have_ids = _call_id(call) and _call_id(result)
    have_other_tools = call.tool and result.tool and call.tool != result.tool
    return call.type == "tool_call" and not have_ids and not have_other_tools


def _call_id(passage: Passage) -> str:
    values = (passage.metadata.get(name) for name in _ID_NAMES)
    return next((value for value in values if isinstance(value, str) and value), "")


def outcome(call: Passage, result: Passage | None, now: datetime | None = None) -> tuple[str, str]:
    """How a tool call ended, and how long it took."""
    if result is None:
        if _has_failed(call.metadata):
            return FAILED, ""
        age = (now or datetime.now(UTC)) - call.created_at if call.created_at else _RUNNING_FOR
        return (RUNNING if age < _RUNNING_FOR else NO_RESULT), ""
    has_failed = _has_failed(result.metadata) or _has_failed(call.metadata)
    return (FAILED if has_failed else DONE), _duration(call, result)


def _has_failed(metadata: Mapping[str, Json]) -> bool:
    return any(
        fields.get("is_error") is True
        or fields.get("success") is False
        or (isinstance(fields.get("exit_code"), int) and fields["exit_code"] != 0)
        or str(fields.get("status", "")).lower() in _FAILURES
        for fields in with_nested(metadata)
    )


def with_nested(metadata: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    nested = metadata.get("metadata")
    return [metadata, nested] if isinstance(nested, Mapping) else [metadata]


def _duration(call: Passage, result: Passage) -> str:
    for fields in with_nested(result.metadata):
        for name in ("wall_time_seconds", "duration_seconds"):
            seconds = fields.get(name)
            if isinstance(seconds, (int, float)) and seconds >= 0:
                return format_duration(seconds)
    if call.created_at is None or result.created_at is None:
        return ""
    elapsed = result.created_at - call.created_at
    if timedelta(0) < elapsed < _LONGEST:
        return format_duration(elapsed.total_seconds())
    return ""


def format_duration(seconds: float) -> str:
    """A duration for people: "0.4 s", "12 s", "2 min 5 s", "1 h 3 min"."""
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def summarize(content: str, diffs: Sequence[FileDiff]) -> str:
    """What a call does, on one line: the file, the command, the query, or its first words."""
    if diffs and diffs[0].path:
        return one_line(", ".join(diff.path for diff in diffs))
    start = content[:2_000]
    match = _SUMMARY.search(start) or _JSON_SUMMARY.search(start)
    return one_line(match.group(1) if match else start)


def one_line(text: str) -> str:
    return " ".join(text[: 2 * _SUMMARY_CHARS].split())[:_SUMMARY_CHARS]
