"""The messages of a conversation, as the templates show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import Markup

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.documents import Document, Passage, View
from recollect.model.documents import MessageView as Step
from recollect.model.labels import UNTITLED, readable_title
from recollect.serve.console.views import attachments, tool_rows
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.markup.diffs import FileDiff, render_diffs
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

WINDOW = 40
"""Messages per request."""
_COLLAPSED = {
    "thinking": "Thinking",
    "tool_call": "Tool call",
    "tool_result": "Tool result",
    "context": "Context",
    "summary": "Summary",
}
_PLAIN_TEXT = ("tool_call", "tool_result")
_WINDOW_CHARS = 120_000  # beyond this, the messages of a window are cut short
_SHORT_MESSAGE_CHARS = 1_500
_PREVIEW_CHARS = 140


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call, shown in the row of the call."""

    passage: Passage
    index: int
    body: Markup
    hidden_chars: int

    @property
    def attachments(self) -> list[attachments.AttachmentView]:
        return attachments.describe_all(self.passage.attachments)


class ToolRow(NamedTuple):
    """A tool call and what came of it, in one row."""

    summary: str
    diffs: Sequence[FileDiff]
    outcome: tool_rows.Outcome
    result: ToolResult | None


@dataclass(frozen=True, slots=True)
class MessageView:
    passage: Passage
    index: int
    siblings: tuple[str, ...]
    """The versions of this message, if the conversation branches here."""
    sibling_index: int
    body: Markup
    hidden_chars: int
    """Characters that are not shown yet."""
    tool: ToolRow | None = None
    """For tool calls."""
    call_index: int | None = None
    """For a result that is shown in the row of its call: the index of the call."""

    @property
    def is_hidden(self) -> bool:
        return self.passage.visibility == "hidden"

    @property
    def is_collapsed(self) -> bool:
        return self.is_hidden or self.passage.type in _COLLAPSED

    @property
    def label(self) -> str:
        """The heading of a collapsed message."""
        if self.is_hidden:
            return f"Hidden {self.passage.role or 'message'}"
        return _COLLAPSED.get(self.passage.type, self.passage.type)

    @property
    def name(self) -> str:
        return self.passage.author or (self.passage.role or "unknown").capitalize()

    @property
    def css_class(self) -> str:
        if self.is_hidden:
            return "is-hidden"
        if self.is_collapsed:
            return "is-aside"
        return ""

    @property
    def preview(self) -> str:
        return " ".join(self.passage.content[:_PREVIEW_CHARS].split())

    @property
    def attachments(self) -> list[attachments.AttachmentView]:
        return attachments.describe_all(self.passage.attachments)

    @property
    def citations(self) -> list[str]:
        return [attachments.describe(item) for item in self.passage.citations]


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
    messages = _message_views(view, _tool_pairs(library, view, through), principal)
    label = library.label(view.document.id, view.document.title)
    return ConversationWindow(
        view.document, label, messages, view.start, view.total, view.size, through, around
    )


# -- tools ---


@dataclass(slots=True)
class _ToolPairs:
    """Which results belong to which calls, also across the edges of a window."""

    steps: dict[int, Step]
    calls: Mapping[int, int]
    """The index of the call, by the index of the result."""
    results: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.results = {call: result for result, call in self.calls.items()}


def _tool_pairs(library: Library, view: View, through: str) -> _ToolPairs:
    steps = dict(enumerate(view.messages, view.start))
    pairs = _pair(steps)
    types = {index: step.passage.type for index, step in steps.items()}
    end = view.start + len(view.messages)
    has_lone_results = any(
        type_ == "tool_result" and index not in pairs.calls for index, type_ in types.items()
    )
    has_lone_calls = any(
        type_ == "tool_call" and index not in pairs.results for index, type_ in types.items()
    )
    if has_lone_results and view.start > 0:
        first = max(0, view.start - tool_rows.LOOKAROUND)
        steps |= _read_steps(library, view, through, first, view.start - first)
    if has_lone_calls and end < view.total:
        steps |= _read_steps(library, view, through, end, tool_rows.LOOKAROUND)
    if len(steps) > len(view.messages):
        pairs = _pair(steps)
    return pairs


def _pair(steps: dict[int, Step]) -> _ToolPairs:
    messages = [(index, steps[index].passage) for index in sorted(steps)]
    return _ToolPairs(steps, tool_rows.pair_results(messages))


def _read_steps(
    library: Library, view: View, through: str, start: int, limit: int
) -> dict[int, Step]:
    """Messages just outside a window. There are none if the conversation has changed."""
    try:
        other = library.view(view.document.id, through=through or None, start=start, limit=limit)
    except NotFound:
        return {}
    return dict(enumerate(other.messages, other.start))


# -- messages ---


class _Renderer:
    """Renders the messages of one window, within its limits of size and time."""

    def __init__(self, pairs: _ToolPairs, principal: Principal) -> None:
        self._pairs = pairs
        self._audience = principal.audience
        self._chars_left = _WINDOW_CHARS
        self._page = rendering.Page()

    def view(self, index: int, step: Step) -> MessageView:
        passage = mask_passage(step.passage, self._audience)
        siblings = tuple(step.siblings)
        call_index = self._pairs.calls.get(index)
        if call_index is not None:
            nothing = Markup("")
            return MessageView(
                passage, index, siblings, step.index, nothing, 0, call_index=call_index
            )
        tool = None
        if passage.type == "tool_call":
            tool = self._tool_row(index, passage)
        body, hidden_chars = self._render(passage, tool)
        return MessageView(passage, index, siblings, step.index, body, hidden_chars, tool)

    def _tool_row(self, index: int, call: Passage) -> ToolRow:
        diffs = self._page.edit_diffs(call.tool or "", call.content[: rendering.MARKDOWN_CHARS])
        result = None
        result_index = self._pairs.results.get(index)
        if result_index is not None:
            passage = mask_passage(self._pairs.steps[result_index].passage, self._audience)
            result = ToolResult(passage, result_index, *self._render(passage, None))
        result_passage = None
        if result:
            result_passage = result.passage
        outcome = tool_rows.outcome(call, result_passage)
        content = call.content.removeprefix(f"{call.tool}\n")
        return ToolRow(tool_rows.summarize(content, diffs), diffs, outcome, result)

    def _render(self, passage: Passage, tool: ToolRow | None) -> tuple[Markup, int]:
        if tool and tool.diffs:
            self._chars_left -= len(passage.content)
            return render_diffs(tool.diffs), 0
        max_chars = rendering.MESSAGE_CHARS
        if self._chars_left <= 0:
            max_chars = _SHORT_MESSAGE_CHARS
        body, hidden_chars = render_message(passage, max_chars, self._page)
        self._chars_left -= len(passage.content) - hidden_chars
        return body, hidden_chars


def _message_views(view: View, pairs: _ToolPairs, principal: Principal) -> list[MessageView]:
    renderer = _Renderer(pairs, principal)
    return [renderer.view(index, step) for index, step in enumerate(view.messages, view.start)]


def render_message(passage: Passage, max_chars: int, page: rendering.Page) -> tuple[Markup, int]:
    """A message's text as HTML, and how many characters were left out."""
    text = rendering.beginning(passage.content, max_chars)
    hidden_chars = len(passage.content) - len(text)
    if passage.type in _PLAIN_TEXT:
        return rendering.plain(text), hidden_chars
    return page.markdown(text), hidden_chars
