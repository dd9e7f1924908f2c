"""Results of a search in one line each, for agents that pay for every token."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.queries.query_tree import Word
from recollect.memory.formats import (
    TOKEN_LENGTH,
    TOOL_OPTIONS,
    OptionNames,
    format_date,
    one_line,
    shorten,
)
from recollect.memory.rendering.render import nothing_found, ordered_facts
from recollect.memory.rendering.repetitions import is_repetition
from recollect.memory.request_filters import MAX_LIMIT
from recollect.memory.results import ConversationHit, MemoryHit, MemoryResults, ObservationHit
from recollect.search.results.snippet import snippet

MAX_LINE_TOKENS = 40
NEAREST = "Nearest in meaning, but not matches:"
_MAX_LINE = MAX_LINE_TOKENS * TOKEN_LENGTH
_MIN_TEXT = 40
"""The characters of a line that must be left for its text."""
_MIN_TITLE = 24
"""The characters of a title beside a long fact."""
_SEPARATOR = " · "


def search_compact(
    results: MemoryResults, query: str | Sequence[str], names: OptionNames = TOOL_OPTIONS
) -> str:
    """One line for each result: id, date, type, and what matters.

    The id is that of an observation, or a path with lines; `read` accepts both.
    """
    conversation_type = "exchange"
    if results.kind == "conversations":
        conversation_type = "conversation"
    lines = [_line(hit, conversation_type) for hit in results.hits]
    if not lines:
        lines.append(nothing_found(results, query))
    lines += _omission(results, names)
    if results.note:
        lines.append(results.note)
    if results.nearest:
        lines += [NEAREST, *(_line(hit, conversation_type) for hit in results.nearest)]
    return "\n".join(lines)


def _omission(results: MemoryResults, names: OptionNames) -> list[str]:
    """How many results were left out, and how to get them."""
    omitted = results.total - len(results.hits)
    if omitted < 1:
        return []
    number = f"{omitted:,} more"
    if not results.is_exact:
        number = f"At least {number}"
    advice = f"{names.limit} {results.total}"
    if results.total > MAX_LIMIT:
        advice = f"{names.limit} {MAX_LIMIT}, or narrow the search: {names.filters}"
    return [f"[{number}. To list them: {advice}]"]


def _line(hit: MemoryHit, conversation_type: str) -> str:
    if isinstance(hit, ObservationHit):
        observation = hit.observation
        head = f"{observation.id} {format_date(observation.created_at)} {observation.type}: "
        if hit.successor is not None:
            head += f"(superseded by {hit.successor.id}) "
        return head + _observation_excerpt(hit, _MAX_LINE - len(head))
    head = _conversation_head(hit, conversation_type)
    return head + _excerpt(" … ".join(hit.snippets), hit.terms, _MAX_LINE - len(head))


def _conversation_head(hit: ConversationHit, conversation_type: str) -> str:
    lines = ""
    if hit.lines is not None:
        lines = f":{hit.lines[0]}-{hit.lines[1]}"
    details = f"{lines} {format_date(hit.created_at)} {conversation_type}: "
    head = hit.path + details
    if len(head) <= _MAX_LINE - _MIN_TEXT:
        return head
    name = hit.path.rpartition("/")[2]  # the project in a path is only for people
    return f"/-/{name}{details}"


def _observation_excerpt(hit: ObservationHit, room: int) -> str:
    """What one of its messages says, or the title and as many facts as there is room for."""
    if hit.quote:
        return _excerpt(one_line(hit.quote), hit.terms, room)
    title = one_line(hit.observation.title)
    facts = ordered_facts(hit)
    if not facts:
        return shorten(title, room)
    best, *others = facts
    if is_repetition(title, [best]):
        excerpt = _excerpt(best, hit.terms, room)
    else:
        # A long title leaves most of the room to the fact.
        title_room = max(room - len(best) - len(_SEPARATOR), _MIN_TITLE)
        excerpt = shorten(title, title_room) + _SEPARATOR
        excerpt += _excerpt(best, hit.terms, room - len(excerpt))
    for fact in others:
        rest = room - len(excerpt) - len(_SEPARATOR)
        if rest < _MIN_TEXT:
            break
        if not is_repetition(fact, [title, best]):
            excerpt += _SEPARATOR + _excerpt(fact, hit.terms, rest)
    return excerpt


def _excerpt(text: str, terms: Sequence[str], room: int) -> str:
    """At most `room` characters, around words of the query."""
    room = max(room, _MIN_TEXT)
    if len(text) <= room:
        return text
    excerpt, _ = snippet(text, [Word(term) for term in terms], room - 2)
    return shorten(one_line(excerpt), room)
