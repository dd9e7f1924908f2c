"""The answer of `recall_read`: messages around a place, a span, or from the start.

A message begins with a line `#number speaker`. Lines of messages that look like one are indented by
a space, so that no message can pose as another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.errors import NotFound
from recollect.language.text import for_model, storable
from recollect.library import Library
from recollect.memory.observe.work import calls_of_results
from recollect.memory.reading import tool_label
from recollect.model.documents import Passage, Summary
from recollect.model.kinds import CONVERSATION
from recollect.serve.masking import mask_passage
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.recall_lines import (
    Budget,
    Reference,
    count_tokens,
    cut,
    day,
    heading,
    one_line,
    speaker,
)

_AROUND = 40
"""Messages read before and after the requested one. Usually the budget is used up earlier."""
_AT_ONCE = 100
_REMARKS = 60
_MIN_PART = 40
"""A message is cut only if at least this many tokens of it can be shown."""
_MAX_CALL_LENGTH = 200
_INDENTED_HEADING = re.compile(r"^ (?=#\d)", re.MULTILINE)
_LOOKS_LIKE_HEADING = re.compile(r"^(?=#\d)", re.MULTILINE)


def span_that_fits(costs: Sequence[int], middle: int, room: int) -> tuple[int, int]:
    """The first and the last message of a span around the middle that costs at most `room`.

    It grows in both directions in turn, and forward first.
    """
    first = last = middle
    room -= costs[middle]
    while True:
        has_grown = False
        if last + 1 < len(costs) and costs[last + 1] <= room:
            last += 1
            room -= costs[last]
            has_grown = True
        if first > 0 and costs[first - 1] <= room:
            first -= 1
            room -= costs[first]
            has_grown = True
        if not has_grown:
            return first, last


class Reading:
    """One call of `recall_read`."""

    def __init__(
        self, context: Context, library: Library, reference: Reference, tool_results: bool
    ) -> None:
        self._context = context
        self._library = library
        self._reference = reference
        self._tool_results = tool_results
        self._calls: dict[str, Passage] = {}
        """The calls of tools by the ids of their results."""
        self._summary: Summary = library.summary(reference.id)
        self._short_id = library.short_id(reference.id)

    def answer(self, max_tokens: int) -> str:
        budget = Budget(max_tokens, _REMARKS)
        budget.add(heading(self._library, self._summary, self._summary.created_at))
        reference = self._reference
        if reference.first is None:
            return self._forward(budget, 1, None)
        if reference.last is not None:
            return self._forward(budget, reference.first, reference.last)
        if reference.offset:
            return self._from_offset(budget, reference.first)
        return self._around(budget, reference.first)

    # -- which messages ---

    def _messages(self, first: int, count: int) -> list[Passage]:
        """Messages from a number on that the caller may see."""
        passages, _ = self._library.messages(self._reference.id, first - 1, count)
        visible = [
            mask_passage(passage, self._context.audience)
            for passage in passages
            if self._is_visible(passage)
        ]
        if self._tool_results:
            return visible
        self._calls |= calls_of_results(visible)
        # The label of a result says what was called.
        call_ids = {call.id for call in self._calls.values()}
        return [p for p in visible if p.id not in call_ids or self._is_requested(p)]

    def _is_requested(self, passage: Passage) -> bool:
        return passage.position + 1 == self._reference.first

    def _is_visible(self, passage: Passage) -> bool:
        if passage.visibility == "hidden" or not passage.canonical:
            return self._is_requested(passage) and self._context.can_find(passage)
        return self._context.can_find(passage)

    def _forward(self, budget: Budget, first: int, last: int | None) -> str:
        """Messages from one number to another, as many as fit."""
        number = first
        day_shown = ""
        while last is None or number <= last:
            passages = self._messages(number, _AT_ONCE)
            if not passages:
                break
            for passage in passages:
                number = passage.position + 1
                if last is not None and number > last:
                    break
                block = self._block(passage, day_shown)
                if not budget.add(block):
                    return self._cut_off(budget, passage, block)
                day_shown = day(passage.created_at)
                number += 1
        if number == first:
            raise NotFound(f"There is no message {first}: {self._size()}.")
        return budget.close(self._remark(first, number - 1))

    def _around(self, budget: Budget, number: int) -> str:
        """A message with as many messages before and after it as fit."""
        passages = self._messages(max(1, number - _AROUND), 2 * _AROUND + 1)
        numbers = [passage.position + 1 for passage in passages]
        if number not in numbers:
            raise NotFound(f"There is no message {number}: {self._size()}.")
        middle = numbers.index(number)
        blocks = [self._block(passage, "") for passage in passages]
        if count_tokens(blocks[middle]) >= budget.room:
            return self._cut_off(budget, passages[middle], blocks[middle])
        first, last = span_that_fits([count_tokens(b + "\n") for b in blocks], middle, budget.room)
        day_shown = ""
        for passage in passages[first : last + 1]:
            budget.add(self._block(passage, day_shown))
            day_shown = day(passage.created_at)
        return budget.close(self._remark(numbers[first], numbers[last]))

    def _from_offset(self, budget: Budget, number: int) -> str:
        """One message from a character on, and the next ones if there is room."""
        passages = self._messages(number, 1)
        if not passages or passages[0].position + 1 != number:
            raise NotFound(f"There is no message {number}: {self._size()}.")
        passage = passages[0]
        content = passage.content[self._reference.offset :]
        if not content:
            raise NotFound(f"Message {number} has only {len(passage.content):,} characters.")
        block = f"{self._label(passage, '')} (from character {self._reference.offset})\n"
        block += quote(content)
        if not budget.add(block):
            return self._cut_off(budget, passage, block, self._reference.offset)
        return budget.close(self._remark(number, number))

    def _cut_off(self, budget: Budget, passage: Passage, block: str, offset: int = 0) -> str:
        """The beginning of a message that does not fit, and how to go on."""
        number = passage.position + 1
        label, _, content = block.partition("\n")
        room = budget.room - count_tokens(label) - 2
        is_first = number == (self._reference.first or 1)
        if room < _MIN_PART and not is_first:
            return budget.close(f"More: {self._short_id}#{number}-{self._summary.message_count}.")
        part = cut(content, room)
        budget.add(f"{label}\n{part}…")
        end = offset + len(part) - len(_INDENTED_HEADING.findall(part))
        return budget.close(f"The message goes on: {self._short_id}#{number}+{end}.")

    # -- what they look like ---

    def _block(self, passage: Passage, day_shown: str) -> str:
        if passage.type == "tool_result" and not self._tool_results:
            return self._result_block(passage)
        label = self._label(passage, day_shown)
        content = passage.content
        if passage.type == "tool_call" and not self._tool_results:
            return f"{label} {one_line(content, _MAX_CALL_LENGTH)}"
        return f"{label}\n{quote(content)}"

    def _result_block(self, result: Passage) -> str:
        """What a tool did, and how much it returned: `#15 [Read src/server.ts, 62 lines]`."""
        label = tool_label(result, self._calls.get(result.id), self._summary.project)
        lines = result.content.count("\n") + 1
        unit = "line" if lines == 1 else "lines"
        return f"#{result.position + 1} [{one_line(label.text, 100)}, {lines} {unit}]"

    def _label(self, passage: Passage, day_shown: str) -> str:
        name = ""
        if self._summary.kind == CONVERSATION:
            name = speaker(passage.author, passage.role)
        if passage.type not in ("message", "chunk"):
            name = passage.type.replace("_", " ")
        if passage.tool:
            name += f" {one_line(passage.tool, 60)}"
        date = day(passage.created_at)
        if date == day_shown:
            date = ""
        return " ".join(filter(None, [f"#{passage.position + 1}", name, date]))

    # -- remarks ---

    def _size(self) -> str:
        count = self._summary.message_count
        if count == 1:
            return "the only one is #1"
        return f"{self._short_id} has the messages #1 to #{count}"

    def _remark(self, first: int, last: int) -> str:
        count = self._summary.message_count
        if first <= 1 and last >= count:
            return ""
        more = []
        if first > 1:
            more.append(f"#1-{first - 1}")
        if last < count:
            more.append(f"#{last + 1}-{count}")
        return f"Messages {first} to {last} of {count}. More: {self._short_id}{' or '.join(more)}."


def quote(content: str) -> str:
    return _LOOKS_LIKE_HEADING.sub(" ", for_model(storable(content.strip("\n"))))
