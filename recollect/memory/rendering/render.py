"""Results of the memory as Markdown for readers and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recollect.language.text import iso, tokens
from recollect.memory.formats import (
    code_list,
    count,
    format_date,
    format_time,
    one_line,
    shorten,
    time_zone,
)
from recollect.memory.names import file_name
from recollect.memory.rendering.repetitions import without_repetitions
from recollect.memory.results import (
    ConversationHit,
    Deletion,
    MemoryHit,
    MemoryResults,
    ObservationHit,
)
from recollect.model.observations import Observation
from recollect.model.projects import project_name

SHORT_LENGTH = 90
OWN_LENGTH = 120
"""How many characters of its title and its facts a list shows for one observation."""
MIN_FACT = 40
"""The characters that must be left for a fact."""
SNIPPET_LENGTH = 240
SUCCESSOR_LENGTH = 80
MAX_DELETION_NAMES = 10

NO_OBSERVATIONS = "No observations found matching your query."
NO_CONVERSATIONS = "No conversations found matching all concepts: "
EXCHANGES = "No observations found. Showing exchanges that match:"
_WORK_FACTS = ("Modified ", "Ran ", "Created ", "Deleted ", "Renamed ", "Searched the web ")
_RULE = "\n\n---\n\n"


# -- search ----------------------------------------------------------------------


def search_text(results: MemoryResults, query: str | Sequence[str]) -> str:
    if not results.hits:  # The Memory API fixes this answer.
        return nothing_found(results, query)
    entries = [_entry_text(number, hit, results.kind) for number, hit in enumerate(results.hits, 1)]
    parts = [f"## Search Results ({_counts(results)})\n\n{_RULE.join(entries)}"]
    if results.kind == "exchanges":
        parts.insert(0, EXCHANGES)
    if results.note:
        parts.append(results.note)
    return "\n\n".join(parts)


def nothing_found(results: MemoryResults, query: str | Sequence[str]) -> str:
    if results.kind != "conversations":
        return NO_OBSERVATIONS
    concepts = query
    if isinstance(query, str):
        concepts = [query]
    return NO_CONVERSATIONS + ", ".join(concepts)


def _counts(results: MemoryResults) -> str:
    """How many results of each kind are listed: `2 observations and 1 exchange`."""
    counts = []
    if results.observations:
        counts.append(count(len(results.observations), "observation"))
    if results.conversations:
        noun = "exchange"
        if results.kind == "conversations":
            noun = "conversation"
        counts.append(count(len(results.conversations), noun))
    return " and ".join(counts)


def _entry_text(number: int, hit: MemoryHit, kind: str) -> str:
    if isinstance(hit, ObservationHit):
        return _observation_text(number, hit)
    return _conversation_text(number, hit, kind)


@time_zone("UTC")
def search_json(results: MemoryResults) -> dict[str, Any]:
    value: dict[str, Any] = {"results": _entries_json(results.hits), "total": results.total}
    if not results.is_exact:
        value["exact"] = False
    notes = [results.note]
    if results.kind == "exchanges":
        notes.insert(0, EXCHANGES)
    note = " ".join(filter(None, notes))
    if note:
        value["note"] = note
    if results.nearest:
        value["nearest"] = _entries_json(results.nearest)
    return value


def _entries_json(hits: Iterable[MemoryHit]) -> list[dict[str, Any]]:
    entries = []
    for hit in hits:
        if isinstance(hit, ObservationHit):
            entries.append(_observation_json(hit))
        else:
            entries.append(_conversation_json(hit))
    return entries


def _observation_text(number: int, hit: ObservationHit) -> str:
    observation = hit.observation
    project = project_name(observation.project)
    lines = [
        f"### {number}. [{project}] - {format_date(observation.created_at)}",
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


def top_facts(hit: ObservationHit) -> list[str]:
    """The fact that says most about the query, and by what the observation was superseded.

    If it was found by one of its messages, it is what the message says. A long fact is listed only
    if it has words of the query that the title lacks.
    """
    title = one_line(hit.observation.title)
    query_words = {word for term in hit.terms for word in tokens(term)}.difference(tokens(title))
    facts = [
        shorten(fact, max(OWN_LENGTH - len(title), MIN_FACT))
        for fact in ([one_line(hit.quote)] if hit.quote else ordered_facts(hit)[:1])
        if len(title) + len(fact) <= SHORT_LENGTH or not query_words.isdisjoint(tokens(fact))
    ]
    if hit.successor is not None:
        facts.insert(0, superseded_note(hit.successor))
    return facts


def ordered_facts(hit: ObservationHit) -> list[str]:
    """The facts without what the title already says, the most useful ones first.

    Statements come before questions and before what was run or modified. Among these, those with
    words of the query come first.
    """
    title = one_line(hit.observation.title).rstrip(".…").casefold()
    facts = [
        fact
        for fact in map(one_line, hit.observation.facts)
        if fact and fact.rstrip(".…").casefold() != title
    ]
    query_words = {word for term in hit.terms for word in tokens(term)}

    def order(fact: str) -> tuple[bool, int]:
        is_minor = fact.startswith(_WORK_FACTS) or fact.endswith(("?", "？"))
        return is_minor, -len(query_words.intersection(tokens(fact)))

    return sorted(facts, key=order)


def _conversation_text(number: int, hit: ConversationHit, kind: str) -> str:
    summary = " … ".join(shorten(snippet, SNIPPET_LENGTH) for snippet in hit.snippets)
    title = one_line(hit.title)
    if kind == "conversations" and title:
        summary = f"Summary: {title}\n{summary}"
    lines = ""
    if hit.lines is not None:
        lines = f" lines {hit.lines[0]}-{hit.lines[1]}"
    return "\n".join(
        (
            f"### {number}. [{hit.project}] - {format_date(hit.created_at)}",
            f"**Path:** `{hit.path}`{lines}",
            f"**Score:** {hit.score:.2f}",
            "",
            summary,
        )
    )


def superseded_note(successor: Observation) -> str:
    """A remark about a decision that a later one replaced."""
    title = shorten(one_line(successor.title), SUCCESSOR_LENGTH)
    return f"Superseded by {successor.id} ({format_date(successor.created_at)}): {title}"


def _observation_json(hit: ObservationHit) -> dict[str, Any]:
    observation = hit.observation
    value: dict[str, Any] = {
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
    if hit.successor is not None:
        value["superseded_by"] = hit.successor.id
    return value


def _conversation_json(hit: ConversationHit) -> dict[str, Any]:
    lines = None
    if hit.lines is not None:
        lines = list(hit.lines)
    return {
        "path": hit.path,
        "project": hit.project,
        "date": format_date(hit.created_at),
        "title": hit.title,
        "score": hit.score,
        "summary": hit.title,
        "snippet": " … ".join(hit.snippets),
        "lines": lines,
    }


# -- details -------------------------------------------------------------------


def details_text(hits: Sequence[ObservationHit]) -> str:
    details = _RULE.join(map(_details_text, hits))
    return f"Retrieved {count(len(hits), 'observation')}:\n\n{details}"


def details_json(hits: Iterable[ObservationHit]) -> list[dict[str, Any]]:
    return [_details_json(hit) for hit in hits]


def _details_json(hit: ObservationHit) -> dict[str, Any]:
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
    if hit.successor is not None:
        value["superseded_by"] = hit.successor.id
    return value


def _details_text(hit: ObservationHit) -> str:
    observation = hit.observation
    project = project_name(observation.project)
    time = format_time(observation.created_at)
    title = one_line(observation.title)
    texts = without_repetitions(observation)
    parts = [f"## [{project}, {time}] - {observation.type}: {title}"]
    if hit.successor is not None:
        parts.append(superseded_note(hit.successor))
    if texts.subtitle:
        parts.append(f"**{texts.subtitle}**")
    if texts.narrative:
        parts.append(texts.narrative)
    if texts.facts:
        parts.append("\n".join(["**Facts:**", *(f"- {fact}" for fact in texts.facts)]))
    if observation.concepts:
        parts.append(f"**Concepts:** {code_list(observation.concepts)}")
    files = _files(observation)
    if files:
        parts.append(f"**Files:** {code_list(files)}")
    first, last = observation.lines
    parts.append(f"**Source:** `{hit.path}` lines {first}-{last}")
    return "\n\n".join(parts)


def _files(observation: Observation) -> list[str]:
    paths = dict.fromkeys((*observation.files_modified, *observation.files_read))
    return [file_name(path, observation.project) for path in paths]


# -- timeline ------------------------------------------------------------------


def timeline_text(hits: Sequence[ObservationHit], anchor: int | None) -> str:
    if not hits:
        return "No observations found around that time."
    lines = []
    for number, hit in enumerate(hits):
        observation = hit.observation
        mark = "→" if number == anchor else "-"
        project = project_name(observation.project)
        lines.append(
            f"{mark} {format_time(observation.created_at)} [{project}] "
            f"{observation.type} {observation.id}: {one_line(observation.title)}"
        )
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
    lines = [f"- {name}" for name in names[:MAX_DELETION_NAMES]]
    if len(names) > MAX_DELETION_NAMES:
        lines.append(f"- and {len(names) - MAX_DELETION_NAMES:,} more")
    listing = "\n".join(lines)
    if confirm:
        return f"Forgot {_deletion_counts(deletion)}, for good:\n{listing}"
    return (
        f"This would delete {_deletion_counts(deletion)}, for good:\n{listing}\n\n"
        "Nothing was deleted. To delete: confirm true."
    )


def _deletion_counts(deletion: Deletion) -> str:
    if not deletion.conversations:
        return count(len(deletion.observations), "observation")
    conversations = count(len(deletion.conversations), "conversation")
    messages = count(deletion.message_count, "message")
    observations = count(deletion.observation_count, "observation")
    return f"{conversations} with {messages} and {observations}"


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
