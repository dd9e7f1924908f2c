"""Tool calls with their results: which belong together, how a call ended, and how long it took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from recollect.model.documents import Json, Passage
from recollect.serve.console.views.markup.diffs import FileDiff

LOOKAROUND = 20
"""A result may be this many messages after its call."""
DONE, FAILED, RUNNING, NO_RESULT = "done", "failed", "running", "no result"
_RUNNING_FOR = timedelta(hours=1)  # a call that is older has been abandoned
_LONGEST = timedelta(days=1)
_ID_NAMES = ("tool_use_id", "call_id", "tool_call_id")
_FAILURES = frozenset(("error", "failed", "failure", "cancelled", "canceled", "timeout"))
_SECONDS_NAMES = ("wall_time_seconds", "duration_seconds")
_SUMMARY = re.compile(
    r"^(?:command|cmd|file_path|notebook_path|path|pattern|query|url|description|prompt):"
    r"[ \n](.+)$",
    re.MULTILINE,
)
_JSON_SUMMARY = re.compile(
    r'"(?:command|cmd|file_path|path|pattern|query|url|description|prompt)": ?"((?:[^"\\]|\\.)+)"'
)
_SUMMARY_CHARS = 140


class Outcome(NamedTuple):
    """How a tool call ended."""

    status: str
    duration: str
    """Empty if it is not known."""


def pair_results(messages: Iterable[tuple[int, Passage]]) -> dict[int, int]:
    """The index of the call for the index of each result. `messages` are in order."""
    calls_by_id: dict[str, int] = {}
    last: tuple[int, Passage] | None = None
    pairs: dict[int, int] = {}
    for index, passage in messages:
        if passage.type == "tool_call":
            call_id = _call_id(passage) or passage.metadata.get("id")
            if isinstance(call_id, str) and call_id:
                calls_by_id[call_id] = index
        elif passage.type == "tool_result":
            call = calls_by_id.pop(_call_id(passage), None)
            if call is None and last is not None and _answers(index, passage, *last):
                call = last[0]
            if call is not None and index - call <= LOOKAROUND:
                pairs[index] = call
        last = (index, passage)
    return pairs


def _answers(index: int, result: Passage, call_index: int, call: Passage) -> bool:
    """Whether a result without an id answers the message before it."""
    if call.type != "tool_call" or index != call_index + 1:
        return False
    if _call_id(call) and _call_id(result):
        return False
    return call.tool == result.tool or not call.tool or not result.tool


def _call_id(passage: Passage) -> str:
    for name in _ID_NAMES:
        value = passage.metadata.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


# -- outcome ---


def outcome(call: Passage, result: Passage | None, now: datetime | None = None) -> Outcome:
    if result is None:
        started = call.created_at
        now = now or datetime.now(UTC)
        if _has_failed(call.metadata):
            return Outcome(FAILED, "")
        if started is not None and now - started < _RUNNING_FOR:
            return Outcome(RUNNING, "")
        return Outcome(NO_RESULT, "")
    status = DONE
    if _has_failed(result.metadata) or _has_failed(call.metadata):
        status = FAILED
    return Outcome(status, _duration(call, result))


def _has_failed(metadata: Mapping[str, Json]) -> bool:
    for fields in _with_nested(metadata):
        if fields.get("is_error") is True or fields.get("success") is False:
            return True
        exit_code = fields.get("exit_code")
        if isinstance(exit_code, int) and exit_code != 0:
            return True
        if str(fields.get("status", "")).lower() in _FAILURES:
            return True
    return False


def _with_nested(metadata: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    nested = metadata.get("metadata")
    if isinstance(nested, Mapping):
        return [metadata, nested]
    return [metadata]


def _duration(call: Passage, result: Passage) -> str:
    for fields in _with_nested(result.metadata):
        for name in _SECONDS_NAMES:
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
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


# -- summary ---


def summarize(content: str, diffs: Sequence[FileDiff]) -> str:
    """What a call does, on one line: the file, the command, the query, or its first words."""
    if diffs and diffs[0].path:
        return _one_line(", ".join(diff.path for diff in diffs))
    start = content[:2_000]
    match = _SUMMARY.search(start) or _JSON_SUMMARY.search(start)
    if match:
        return _one_line(match.group(1))
    return _one_line(start)


def _one_line(text: str) -> str:
    return " ".join(text[: 2 * _SUMMARY_CHARS].split())[:_SUMMARY_CHARS]
