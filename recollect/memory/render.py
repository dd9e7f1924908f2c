"""Results of the memory as Markdown for readers and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from recollect.language.text import iso, tokens
from recollect.memory.names import file_name, project_name
from recollect.memory.results import ConversationHit, Deletion, MemoryResults, ObservationHit
from recollect.model.observations import Observation

MAX_FACTS = 3
FACTS_LENGTH = 160
"""How many characters of facts a list shows for one observation."""
SNIPPET_LENGTH = 240
MAX_DELETION_NAMES = 10

NO_OBSERVATIONS = "No observations found matching your query."
NO_CONVERSATIONS = "No conversations found matching all concepts: "
EXCHANGES = "No observations found. Showing exchanges that match:"
_RULE = "\n\n---\n\n"


# -- search ----------------------------------------------------------------------


def search_text(results: MemoryResults, query: str | Sequence[str]) -> str:
    if results.kind == "observations":
        text = _observations_text(results.observations)
    else:
        text = _conversations_text(results, query)
    has_results = results.observations or results.conversations
    if results.note and has_results:  # The Memory API fixes the answer without results.
        text += f"\n\n{results.note}"
    return text


def _observations_text(hits: Sequence[ObservationHit]) -> str:
    if not hits:
        return NO_OBSERVATIONS
    entries = [_observation_text(number, hit) for number, hit in enumerate(hits, 1)]
    return f"## Search Results ({_count(len(hits), 'observation')})\n\n{_RULE.join(entries)}"


def _conversations_text(results: MemoryResults, query: str | Sequence[str]) -> str:
    hits = results.conversations
    if not hits:
        concepts = [query] if isinstance(query, str) else query
        return NO_CONVERSATIONS + ", ".join(concepts)
    entries = [_conversation_text(number, hit, results.kind) for number, hit in enumerate(hits, 1)]
    count = _count(len(hits), results.kind.removesuffix("s"))
    text = f"## Search Results ({count})\n\n{_RULE.join(entries)}"
    if results.kind == "exchanges":
        return f"{EXCHANGES}\n\n{text}"
    return text


def search_json(results: MemoryResults) -> dict[str, Any]:
    entries = [_observation_json(hit) for hit in results.observations]
    if not entries:
        entries = [_conversation_json(hit) for hit in results.conversations]
    notes = [results.note]
    if results.kind == "exchanges":
        notes.insert(0, EXCHANGES)
    value: dict[str, Any] = {"results": entries, "total": results.total}
    note = " ".join(filter(None, notes))
    if note:
        value["note"] = note
    return value


def _observation_text(number: int, hit: ObservationHit) -> str:
    observation = hit.observation
    project = project_name(observation.project)
    lines = [
        f"### {number}. [{project}] - {_date(observation.created_at)}",
        f"**ID:** {observation.id}",
        f"**Type:** {observation.type}",
        f"**Score:** {hit.score:.2f}",
        "",
        f"**Title:** {_one_line(observation.title)}",
    ]
    facts = top_facts(hit)
    if facts:
        lines += ["**Facts:**", *(f"- {fact}" for fact in facts)]
    return "\n".join(lines)


def top_facts(hit: ObservationHit) -> list[str]:
    """A few facts, those with words of the query first, without what the title already says."""
    query_words = {word for term in hit.terms for word in tokens(term)}
    title = _one_line(hit.observation.title).rstrip(".…").casefold()
    facts = [
        fact
        for fact in map(_one_line, hit.observation.facts)
        if fact and fact.rstrip(".…").casefold() != title
    ]
    facts.sort(key=lambda fact: -len(query_words.intersection(tokens(fact))))
    excerpts: list[str] = []
    room = FACTS_LENGTH
    for fact in facts[:MAX_FACTS]:
        if excerpts and room < FACTS_LENGTH // 4:
            break
        excerpt = _shorten(fact, max(room, FACTS_LENGTH // 4))
        excerpts.append(excerpt)
        room -= len(excerpt)
    return excerpts


def _conversation_text(number: int, hit: ConversationHit, kind: str) -> str:
    summary = " … ".join(_shorten(snippet, SNIPPET_LENGTH) for snippet in hit.snippets)
    title = _one_line(hit.title)
    if kind == "conversations" and title:
        summary = f"Summary: {title}\n{summary}"
    lines = ""
    if hit.lines is not None:
        lines = f" lines {hit.lines[0]}-{hit.lines[1]}"
    return "\n".join(
        (
            f"### {number}. [{hit.project}] - {_date(hit.created_at)}",
            f"**Path:** `{hit.path}`{lines}",
            f"**Score:** {hit.score:.2f}",
            "",
            summary,
        )
    )


def _observation_json(hit: ObservationHit) -> dict[str, Any]:
    observation = hit.observation
    return {
        "id": observation.id,
        "path": hit.path,
        "project": project_name(observation.project),
        "date": _date(observation.created_at),
        "type": observation.type,
        "title": observation.title,
        "facts": top_facts(hit),
        "concepts": list(observation.concepts),
        "files": _files(observation),
        "score": hit.score,
        "summary": observation.subtitle or observation.title,
        "snippet": hit.snippet,
    }


def _conversation_json(hit: ConversationHit) -> dict[str, Any]:
    lines = None
    if hit.lines is not None:
        lines = list(hit.lines)
    return {
        "path": hit.path,
        "project": hit.project,
        "date": _date(hit.created_at),
        "title": hit.title,
        "score": hit.score,
        "summary": hit.title,
        "snippet": " … ".join(hit.snippets),
        "lines": lines,
    }


# -- details -------------------------------------------------------------------


def details_text(hits: Sequence[ObservationHit]) -> str:
    details = _RULE.join(map(_details_text, hits))
    return f"Retrieved {_count(len(hits), 'observation')}:\n\n{details}"


def details_json(hits: Iterable[ObservationHit]) -> list[dict[str, Any]]:
    return [_details_json(hit) for hit in hits]


def _details_json(hit: ObservationHit) -> dict[str, Any]:
    observation = hit.observation
    return {
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


def _details_text(hit: ObservationHit) -> str:
    observation = hit.observation
    project = project_name(observation.project)
    time = _time(observation.created_at)
    parts = [f"## [{project}, {time}] - {observation.type}: {_one_line(observation.title)}"]
    if observation.subtitle:
        parts.append(f"**{_one_line(observation.subtitle)}**")
    if observation.narrative:
        parts.append(observation.narrative)
    if observation.facts:
        facts = [f"- {_one_line(fact)}" for fact in observation.facts]
        parts.append("\n".join(["**Facts:**", *facts]))
    if observation.concepts:
        parts.append(f"**Concepts:** {_code_list(observation.concepts)}")
    files = _files(observation)
    if files:
        parts.append(f"**Files:** {_code_list(files)}")
    first, last = observation.lines
    source = f"**Source:** `{hit.path}` lines {first}-{last}"
    if observation.question_lines and observation.question_lines != observation.lines:
        first, last = observation.question_lines
        source += f", of which {first}-{last} what was asked"
    parts.append(source)
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
            f"{mark} {_time(observation.created_at)} [{project}] "
            f"{observation.type} {observation.id}: {_one_line(observation.title)}"
        )
    return f"## Timeline ({_count(len(hits), 'observation')})\n\n" + "\n".join(lines)


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
        f"{_one_line(summary.title) or summary.id} ({_date(summary.created_at)})"
        for summary in deletion.conversations
    ]
    names += [
        f"{hit.observation.id}: {_one_line(hit.observation.title)}" for hit in deletion.observations
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
        return _count(len(deletion.observations), "observation")
    conversations = _count(len(deletion.conversations), "conversation")
    messages = _count(deletion.message_count, "message")
    observations = _count(deletion.observation_count, "observation")
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


# -- text ------------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shorten(text: str, length: int) -> str:
    """At most `length` characters, cut at the end of a word."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    if " " in head[length // 2 :]:
        head = head.rsplit(" ", 1)[0]
    return head.rstrip(" ,;:") + "…"


def _code_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{_one_line(name)}`" for name in names)


def _date(at: datetime | None) -> str:
    if at is None:
        return "unknown"
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def _time(at: datetime | None) -> str:
    if at is None:
        return "unknown"
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
