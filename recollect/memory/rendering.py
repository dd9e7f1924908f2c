"""Results of the memory as Markdown for readers, as JSON for programs, and in one line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from recollect.language.queries.query_tree import Word
from recollect.language.text import iso, tokens
from recollect.memory.formats import (
    TOKEN_LENGTH,
    TOOL_OPTIONS,
    OptionNames,
    code_list,
    count,
    file_name,
    format_date,
    format_time,
    one_line,
    shorten,
    time_zone,
)
from recollect.memory.results import (
    MAX_LIMIT,
    ConversationHit,
    Deletion,
    MemoryHit,
    MemoryResults,
    ObservationHit,
)
from recollect.model.names import project_name
from recollect.model.observations import Observation
from recollect.search.snippets import snippet

SHORT_LENGTH = 90
OWN_LENGTH = 120
"""How many characters of its title and its facts a list shows for one observation."""
MIN_FACT = 40
"""The characters that must be left for a fact."""
SNIPPET_LENGTH = 240
MAX_DELETION_NAMES = 10
MAX_LINE_TOKENS = 40
_MAX_LINE = MAX_LINE_TOKENS * TOKEN_LENGTH
_MIN_TEXT = 40
"""The characters of a line that must be left for its text."""
_MIN_TITLE = 24
"""The characters of a title beside a long fact."""

NO_OBSERVATIONS = "No observations found matching your query."
NO_CONVERSATIONS = "No conversations found matching all concepts: "
EXCHANGES = "No observations found. Showing exchanges that match:"
NEAREST = "Nearest in meaning, but not matches:"
_WORK_FACTS = ("Modified ", "Ran ", "Created ", "Deleted ", "Renamed ", "Searched the web ")
_RULE = "\n\n---\n\n"
_SEPARATOR = " · "
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


# -- search: Markdown ----------------------------------------------------------


def search_text(results: MemoryResults, query: str | Sequence[str]) -> str:
    if not results.hits:  # The Memory API fixes this answer.
        return nothing_found(results, query)
    noun = "conversation" if results.kind == "conversations" else "exchange"
    numbers = ((len(results.observations), "observation"), (len(results.conversations), noun))
    counts = " and ".join(count(number, noun) for number, noun in numbers if number)
    entries = [
        observation_text(number, hit)
        if isinstance(hit, ObservationHit)
        else conversation_text(number, hit, results.kind)
        for number, hit in enumerate(results.hits, 1)
    ]
    parts = [f"## Search Results ({counts})\n\n{_RULE.join(entries)}"]
    if results.kind == "exchanges":
        parts.insert(0, EXCHANGES)
    if results.note:
        parts.append(results.note)
    return "\n\n".join(parts)


def nothing_found(results: MemoryResults, query: str | Sequence[str]) -> str:
    if results.kind != "conversations":
        return NO_OBSERVATIONS
    return NO_CONVERSATIONS + ", ".join([query] if isinstance(query, str) else query)


def observation_text(number: int, hit: ObservationHit) -> str:
    observation = hit.observation
    lines = [
        f"### {number}. [{project_name(observation.project)}] - "
        f"{format_date(observation.created_at)}",
        f"**ID:** {observation.id}",
        f"**Type:** {observation.type}",
        f"**Score:** {hit.score:.2f}",
        "",
        f"**Title:** {one_line(observation.title)}",
    ]
    facts = top_facts(hit)
    if facts:
        lines += ["**Facts:**", *(f"- {fact}" for fact in facts)]
    return "\n".join(lines)


def conversation_text(number: int, hit: ConversationHit, kind: str) -> str:
    summary = " … ".join(shorten(snippet, SNIPPET_LENGTH) for snippet in hit.snippets)
    title = one_line(hit.title)
    if kind == "conversations" and title:
        summary = f"Summary: {title}\n{summary}"
    lines = f" lines {hit.lines[0]}-{hit.lines[1]}" if hit.lines is not None else ""
    return (
        f"### {number}. [{hit.project}] - {format_date(hit.created_at)}\n"
        f"**Path:** `{hit.path}`{lines}\n"
        f"**Score:** {hit.score:.2f}\n"
        f"\n{summary}"
    )


def top_facts(hit: ObservationHit) -> list[str]:
    """The fact that says most about the query.

    If it was found by one of its messages, it is what the message says. A long fact is listed only
    if it has words of the query that the title lacks.
    """
    title = one_line(hit.observation.title)
    query_words = _query_words(hit).difference(tokens(title))
    return [
        shorten(fact, max(OWN_LENGTH - len(title), MIN_FACT))
        for fact in ([one_line(hit.quote)] if hit.quote else ordered_facts(hit)[:1])
        if len(title) + len(fact) <= SHORT_LENGTH or not query_words.isdisjoint(tokens(fact))
    ]


def ordered_facts(hit: ObservationHit) -> list[str]:
    """The facts without what the title already says, the most useful ones first.

    Statements come before questions and before what was run or modified. Among these, those with
    words of the query come first.
    """
    title = one_line(hit.observation.title).rstrip(".…").casefold()
    query_words = _query_words(hit)

    def order(fact: str) -> tuple[bool, int]:
        is_minor = fact.startswith(_WORK_FACTS) or fact.endswith(("?", "？"))
        return is_minor, -len(query_words.intersection(tokens(fact)))

    facts = map(one_line, hit.observation.facts)
    return sorted((f for f in facts if f and f.rstrip(".…").casefold() != title), key=order)


def _query_words(hit: ObservationHit) -> set[str]:
    return {word for term in hit.terms for word in tokens(term)}


# -- search: one line each -----------------------------------------------------


def search_compact(
    results: MemoryResults, query: str | Sequence[str], names: OptionNames = TOOL_OPTIONS
) -> str:
    """One line for each result, for agents that pay for every token: id, date, type, what matters.

    The id is that of an observation, or a path with lines; `read` accepts both.
    """
    type_ = "conversation" if results.kind == "conversations" else "exchange"
    lines = [_line(hit, type_) for hit in results.hits] or [nothing_found(results, query)]
    omitted = results.total - len(results.hits)
    if omitted > 0:
        number = f"{omitted:,} more" if results.is_exact else f"At least {omitted:,} more"
        advice = f"{names.limit} {results.total}"
        if results.total > MAX_LIMIT:
            advice = f"{names.limit} {MAX_LIMIT}, or narrow the search: {names.filters}"
        lines.append(f"[{number}. To list them: {advice}]")
    if results.note:
        lines.append(results.note)
    if results.nearest:
        lines += [NEAREST, *(_line(hit, type_) for hit in results.nearest)]
    return "\n".join(lines)


def _line(hit: MemoryHit, conversation_type: str) -> str:
    if isinstance(hit, ObservationHit):
        observation = hit.observation
        head = f"{observation.id} {format_date(observation.created_at)} {observation.type}: "
        return head + observation_excerpt(hit, _MAX_LINE - len(head))
    lines = f":{hit.lines[0]}-{hit.lines[1]}" if hit.lines is not None else ""
    details = f"{lines} {format_date(hit.created_at)} {conversation_type}: "
    head = hit.path + details
    if len(head) > _MAX_LINE - _MIN_TEXT:  # the project in a path is only for people
        head = f"/-/{hit.path.rpartition('/')[2]}{details}"
    return head + _excerpt(" … ".join(hit.snippets), hit.terms, _MAX_LINE - len(head))


def observation_excerpt(hit: ObservationHit, room: int) -> str:
    """What one of its messages says, or the title and as many facts as there is room for."""
    if hit.quote:
        return _excerpt(one_line(hit.quote), hit.terms, room)
    title = one_line(hit.observation.title)
    facts = ordered_facts(hit)
    if not facts:
        return shorten(title, room)
    best, *others = facts
    if is_contained(_words(title), [_words(best)]):
        excerpt = _excerpt(best, hit.terms, room)
    else:  # a long title leaves most of the room to the fact
        title_room = max(room - len(best) - len(_SEPARATOR), _MIN_TITLE)
        excerpt = shorten(title, title_room) + _SEPARATOR
        excerpt += _excerpt(best, hit.terms, room - len(excerpt))
    for fact in others:
        rest = room - len(excerpt) - len(_SEPARATOR)
        if rest < _MIN_TEXT:
            break
        if not is_contained(_words(fact), [_words(title), _words(best)]):
            excerpt += _SEPARATOR + _excerpt(fact, hit.terms, rest)
    return excerpt


def _excerpt(text: str, terms: Sequence[str], room: int) -> str:
    """At most `room` characters, around words of the query."""
    room = max(room, _MIN_TEXT)
    if len(text) <= room:
        return text
    excerpt, _ = snippet(text, [Word(term) for term in terms], room - 2)
    return shorten(one_line(excerpt), room)


# -- search: JSON --------------------------------------------------------------


@time_zone("UTC")
def search_json(results: MemoryResults) -> dict[str, Any]:
    value: dict[str, Any] = {"results": entries_json(results.hits), "total": results.total}
    if not results.is_exact:
        value["exact"] = False
    notes = [EXCHANGES if results.kind == "exchanges" else "", results.note]
    if any(notes):
        value["note"] = " ".join(filter(None, notes))
    if results.nearest:
        value["nearest"] = entries_json(results.nearest)
    return value


def entries_json(hits: Iterable[MemoryHit]) -> list[dict[str, Any]]:
    return [
        observation_json(hit) if isinstance(hit, ObservationHit) else conversation_json(hit)
        for hit in hits
    ]


def observation_json(hit: ObservationHit) -> dict[str, Any]:
    observation = hit.observation
    return {
        "id": observation.id,
        "path": hit.path,
        "project": project_name(observation.project),
        "date": format_date(observation.created_at),
        "type": observation.type,
        "title": observation.title,
        "facts": top_facts(hit),
        "concepts": list(observation.concepts),
        "files": _files(observation),
        "score": hit.score,
        "summary": observation.subtitle or observation.title,
        "snippet": hit.snippet,
    }


def conversation_json(hit: ConversationHit) -> dict[str, Any]:
    return {
        "path": hit.path,
        "project": hit.project,
        "date": format_date(hit.created_at),
        "title": hit.title,
        "score": hit.score,
        "summary": hit.title,
        "snippet": " … ".join(hit.snippets),
        "lines": None if hit.lines is None else list(hit.lines),
    }


# -- details -------------------------------------------------------------------


def details_text(hits: Sequence[ObservationHit]) -> str:
    details = _RULE.join(map(_details_text, hits))
    return f"Retrieved {count(len(hits), 'observation')}:\n\n{details}"


def _details_text(hit: ObservationHit) -> str:
    observation = hit.observation
    title = one_line(observation.title)
    subtitle, narrative, facts = without_repetitions(observation)
    files = _files(observation)
    head = f"{project_name(observation.project)}, {format_time(observation.created_at)}"
    parts = [
        f"## [{head}] - {observation.type}: {title}",
        f"**{subtitle}**" if subtitle else "",
        narrative,
        "\n".join(["**Facts:**", *(f"- {fact}" for fact in facts)]) if facts else "",
        f"**Concepts:** {code_list(observation.concepts)}" if observation.concepts else "",
        f"**Files:** {code_list(files)}" if files else "",
        f"**Source:** `{hit.path}` lines {observation.lines[0]}-{observation.lines[1]}",
    ]
    return "\n\n".join(filter(None, parts))


def details_json(hits: Iterable[ObservationHit]) -> list[dict[str, Any]]:
    values = []
    for hit in hits:
        observation = hit.observation
        value: dict[str, Any] = {
            "id": observation.id,
            "type": observation.type,
            "title": observation.title,
            "subtitle": observation.subtitle,
            "narrative": observation.narrative,
            "facts": list(observation.facts),
            "concepts": list(observation.concepts),
            "files_read": list(observation.files_read),
            "files_modified": list(observation.files_modified),
            "project": observation.project,
            "created_at": iso(observation.created_at),
            "conversation": observation.conversation,
            "messages": list(observation.passages),
            "lines": list(observation.lines),
            "asked": list(observation.question_lines or ()),
            "maker": observation.maker,
            "path": hit.path,
        }
        values.append(value)
    return values


def _files(observation: Observation) -> list[str]:
    paths = dict.fromkeys((*observation.files_modified, *observation.files_read))
    return [file_name(path, observation.project) for path in paths]


def without_repetitions(observation: Observation) -> tuple[str, str, list[str]]:
    """The subtitle, the narrative and the facts, each sentence once.

    They are taken from the same messages, so they often say the same. A sentence stays where it is
    longest; the title always stays.
    """
    facts = [one_line(fact) for fact in observation.facts]
    said = [_words(text) for text in (observation.title, *facts)]
    lines = []
    for line in observation.narrative.split("\n"):
        sentences = [sentence for sentence in _SENTENCE_END.split(line) if sentence.strip()]
        new = []
        for sentence in sentences:
            words = _words(sentence)
            if not is_contained(words, said):
                new.append(sentence)
                said.append(words)
        if len(new) == len(sentences):
            lines.append(line)
        elif new:
            lines.append(" ".join(new))
    subtitle = one_line(observation.subtitle)
    if is_contained(_words(subtitle), said):
        subtitle = ""
    del said[1 : 1 + len(facts)]
    said.append(_words(subtitle))
    distinct: list[str] = []
    for number, fact in enumerate(facts):
        words = _words(fact)
        longer = [each for each in map(_words, facts[number + 1 :]) if each != words]
        if not is_contained(words, [*said, *longer]):
            distinct.append(fact)
        said.append(words)
    return subtitle, "\n".join(lines).strip("\n"), distinct


def _words(text: str) -> str:
    """The words of a text, for comparisons. Case, punctuation and ellipses do not count."""
    return f" {' '.join(tokens(text))} "


def is_contained(words: str, texts: Iterable[str]) -> bool:
    """Whether a text contains these words. Texts without words are not compared."""
    return bool(words.strip()) and any(words in text for text in texts)


# -- timeline ------------------------------------------------------------------


def timeline_text(hits: Sequence[ObservationHit], anchor: int | None) -> str:
    if not hits:
        return "No observations found around that time."
    lines = [
        f"{'→' if number == anchor else '-'} {format_time(hit.observation.created_at)} "
        f"[{project_name(hit.observation.project)}] {hit.observation.type} "
        f"{hit.observation.id}: {one_line(hit.observation.title)}"
        for number, hit in enumerate(hits)
    ]
    return f"## Timeline ({count(len(hits), 'observation')})\n\n" + "\n".join(lines)


def timeline_json(hits: Iterable[ObservationHit], anchor: int | None) -> dict[str, Any]:
    results = [
        {
            "id": hit.observation.id,
            "path": hit.path,
            "project": project_name(hit.observation.project),
            "created_at": iso(hit.observation.created_at),
            "type": hit.observation.type,
            "title": hit.observation.title,
        }
        for hit in hits
    ]
    return {"results": results, "anchor": anchor}


# -- deletion ------------------------------------------------------------------


def deletion_text(deletion: Deletion, confirm: bool) -> str:
    names = [
        f"{one_line(summary.title) or summary.id} ({format_date(summary.created_at)})"
        for summary in deletion.conversations
    ]
    names += [
        f"{hit.observation.id}: {one_line(hit.observation.title)}" for hit in deletion.observations
    ]
    if not names:
        return "Nothing matches, so nothing was forgotten."
    amounts = count(len(deletion.observations), "observation")
    if deletion.conversations:
        amounts = (
            f"{count(len(deletion.conversations), 'conversation')} with "
            f"{count(deletion.message_count, 'message')} and "
            f"{count(deletion.observation_count, 'observation')}"
        )
    lines = [f"- {name}" for name in names[:MAX_DELETION_NAMES]]
    if len(names) > MAX_DELETION_NAMES:
        lines.append(f"- and {len(names) - MAX_DELETION_NAMES:,} more")
    listing = "\n".join(lines)
    if confirm:
        return f"Forgot {amounts}, for good:\n{listing}"
    return (
        f"This would delete {amounts}, for good:\n{listing}\n\n"
        "Nothing was deleted. To delete: confirm true."
    )


def deletion_json(deletion: Deletion, confirm: bool) -> dict[str, Any]:
    return {
        "deleted": confirm,
        "conversations": [
            {"id": summary.id, "title": summary.title} for summary in deletion.conversations
        ],
        "observations": [hit.observation.id for hit in deletion.observations],
        "counts": {
            "conversations": len(deletion.conversations),
            "messages": deletion.message_count,
            "observations": deletion.observation_count + len(deletion.observations),
        },
    }
