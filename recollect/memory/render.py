"""What memory tells, as Markdown for whoever reads and as JSON for programs. A list is short: details are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from recollect.language.text import iso, tokens
from recollect.memory.api import (
    Answer,
    Forgotten,
    Recalled,
    Talk,
    file_of,
    project_of,
)
from recollect.model.observations import Observation

MOST_FACTS = 3
FACTS = 160
"""Characters of the facts of an observation in a list."""
SNIPPET = 240
LISTED = 10

NO_OBSERVATIONS = "No observations found matching your query."
NO_CONVERSATIONS = "No conversations found matching all concepts: "
EXCHANGES = "No observations found. Showing exchanges that match:"
_RULE = "\n\n---\n\n"


# -- what was found ------------------------------------------------------------


def search_text(found: Answer, query: str | Sequence[str]) -> str:
    if found.kind == "observations":
        if not found.observations:
            text = NO_OBSERVATIONS
        else:
            told = [_observation(number, one) for number, one in enumerate(found.observations, 1)]
            text = f"## Search Results ({_count(len(told), 'observation')})\n\n{_RULE.join(told)}"
    elif not found.talks:
        text = NO_CONVERSATIONS + ", ".join([query] if isinstance(query, str) else query)
    else:
        told = [_talk(number, talk, found.kind) for number, talk in enumerate(found.talks, 1)]
        head = f"## Search Results ({_count(len(told), found.kind.removesuffix('s'))})"
        first = f"{EXCHANGES}\n\n" if found.kind == "exchanges" else ""
        text = f"{first}{head}\n\n{_RULE.join(told)}"
    return f"{text}\n\n{found.note}" if found.note else text


def search_json(found: Answer) -> dict[str, Any]:
    results = [_as_result(one) for one in found.observations] or [
        _as_talk(talk) for talk in found.talks
    ]
    note = {"note": found.note} if found.note else {}
    if found.kind == "exchanges":
        note = {"note": " ".join(filter(None, (EXCHANGES, found.note)))}
    return {"results": results, "total": found.total, **note}


def _observation(number: int, one: Recalled) -> str:
    o = one.observation
    lines = [
        f"### {number}. [{project_of(o.project)}] - {_date(o.created_at)}",
        f"**ID:** {o.id}",
        f"**Type:** {o.type}",
        f"**Score:** {one.score:.2f}",
        "",
        f"**Title:** {_line(o.title)}",
    ]
    if facts := facts_for(one):
        lines += ["**Facts:**", *(f"- {fact}" for fact in facts)]
    return "\n".join(lines)


def facts_for(one: Recalled) -> list[str]:
    """A few facts, first those that have words of the query; what the title says already is left out."""
    wanted = {word for term in one.terms for word in tokens(term)}
    title = _line(one.observation.title).rstrip(".…").casefold()
    facts = [
        fact
        for fact in map(_line, one.observation.facts)
        if fact and fact.rstrip(".…").casefold() != title
    ]
    facts.sort(key=lambda fact: -len(wanted.intersection(tokens(fact))))
    shown: list[str] = []
    room = FACTS
    for fact in facts[:MOST_FACTS]:
        if shown and room < FACTS // 4:
            break
        shown.append(_cut(fact, max(room, FACTS // 4)))
        room -= len(shown[-1])
    return shown


def _talk(number: int, talk: Talk, kind: str) -> str:
    said = " … ".join(_cut(snippet, SNIPPET) for snippet in talk.snippets)
    title = _line(talk.title)
    summary = f"Summary: {title}\n{said}" if kind == "conversations" and title else said
    place = "" if talk.lines is None else f" lines {talk.lines[0]}-{talk.lines[1]}"
    return "\n".join(
        (
            f"### {number}. [{talk.project}] - {_date(talk.created_at)}",
            f"**Path:** `{talk.path}`{place}",
            f"**Score:** {talk.score:.2f}",
            "",
            summary,
        )
    )


def _as_result(one: Recalled) -> dict[str, Any]:
    o = one.observation
    return {
        "id": o.id,
        "path": one.path,
        "project": project_of(o.project),
        "date": _date(o.created_at),
        "type": o.type,
        "title": o.title,
        "facts": facts_for(one),
        "concepts": list(o.concepts),
        "files": _files(one),
        "score": one.score,
        "summary": o.subtitle or o.title,
        "snippet": one.snippet,
    }


def _as_talk(talk: Talk) -> dict[str, Any]:
    return {
        "path": talk.path,
        "project": talk.project,
        "date": _date(talk.created_at),
        "title": talk.title,
        "score": talk.score,
        "summary": talk.title,
        "snippet": " … ".join(talk.snippets),
        "lines": None if talk.lines is None else list(talk.lines),
    }


# -- details -------------------------------------------------------------------


def details_text(recalled: Sequence[Recalled]) -> str:
    told = _RULE.join(map(_details, recalled))
    return f"Retrieved {_count(len(recalled), 'observation')}:\n\n{told}"


def details_json(recalled: Iterable[Recalled]) -> list[dict[str, Any]]:
    return [_as_json(one.observation) | {"path": one.path} for one in recalled]


def _as_json(observation: Observation) -> dict[str, Any]:
    o = observation
    return {
        "id": o.id,
        "type": o.type,
        "title": o.title,
        "subtitle": o.subtitle,
        "narrative": o.narrative,
        "facts": list(o.facts),
        "concepts": list(o.concepts),
        "files_read": list(o.files_read),
        "files_modified": list(o.files_modified),
        "project": o.project,
        "created_at": iso(o.created_at),
        "conversation": o.conversation,
        "messages": list(o.passages),
        "lines": list(o.lines),
        "asked": list(o.asked or ()),
        "maker": o.maker,
    }


def _details(one: Recalled) -> str:
    o = one.observation
    parts = [f"## [{project_of(o.project)}, {_time(o.created_at)}] - {o.type}: {_line(o.title)}"]
    parts += [f"**{_line(o.subtitle)}**"] if o.subtitle else []
    parts += [o.narrative] if o.narrative else []
    parts += ["**Facts:**\n" + "\n".join(f"- {_line(fact)}" for fact in o.facts)] if o.facts else []
    parts += [f"**Concepts:** {_quoted(o.concepts)}"] if o.concepts else []
    parts += [f"**Files:** {_quoted(_files(one))}"] if _files(one) else []
    asked = (
        f", of which {o.asked[0]}-{o.asked[1]} what was asked"
        if o.asked and o.asked != o.lines
        else ""
    )
    parts.append(f"**Source:** `{one.path}` lines {o.lines[0]}-{o.lines[1]}{asked}")
    return "\n\n".join(parts)


def _files(one: Recalled) -> list[str]:
    o = one.observation
    return [file_of(path, o.project) for path in dict.fromkeys((*o.files_modified, *o.files_read))]


# -- around a time -------------------------------------------------------------


def timeline_text(told: Sequence[Recalled], anchor: int | None) -> str:
    if not told:
        return "No observations found around that time."
    lines = []
    for number, one in enumerate(told):
        o = one.observation
        mark = "→" if number == anchor else "-"
        lines.append(
            f"{mark} {_time(o.created_at)} [{project_of(o.project)}] {o.type} {o.id}: {_line(o.title)}"
        )
    return f"## Timeline ({_count(len(told), 'observation')})\n\n" + "\n".join(lines)


def timeline_json(told: Iterable[Recalled], anchor: int | None) -> dict[str, Any]:
    results = [
        {
            "id": one.observation.id,
            "path": one.path,
            "project": project_of(one.observation.project),
            "created_at": iso(one.observation.created_at),
            "type": one.observation.type,
            "title": one.observation.title,
        }
        for one in told
    ]
    return {"results": results, "anchor": anchor}


# -- forgetting ----------------------------------------------------------------


def forgotten_text(forgotten: Forgotten, confirmed: bool) -> str:
    names = [f"{_line(a.title) or a.id} ({_date(a.created_at)})" for a in forgotten.conversations]
    names += [
        f"{one.observation.id}: {_line(one.observation.title)}" for one in forgotten.observations
    ]
    if not names:
        return "Nothing matches, so nothing was forgotten."
    what = _count(len(forgotten.observations), "observation")
    if forgotten.conversations:
        what = (
            f"{_count(len(forgotten.conversations), 'conversation')} with {_count(forgotten.messages, 'message')} and "
            f"{_count(forgotten.observed, 'observation')}"
        )
    listed = "\n".join(f"- {name}" for name in names[:LISTED])
    more = f"\n- and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    if confirmed:
        return f"Forgot {what}, for good:\n{listed}{more}"
    return f"This would delete {what}, for good:\n{listed}{more}\n\nNothing was deleted. To delete: confirm true."


def forgotten_json(forgotten: Forgotten, confirmed: bool) -> dict[str, Any]:
    return {
        "deleted": confirmed,
        "conversations": [{"id": a.id, "title": a.title} for a in forgotten.conversations],
        "observations": [one.observation.id for one in forgotten.observations],
        "counts": {
            "conversations": len(forgotten.conversations),
            "messages": forgotten.messages,
            "observations": forgotten.observed + len(forgotten.observations),
        },
    }


# -- words -----------------------------------------------------------------------


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, length: int) -> str:
    """At most so many characters, to the end of a word."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    return (kept.rsplit(" ", 1)[0] if " " in kept[length // 2 :] else kept).rstrip(" ,;:") + "…"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{_line(name)}`" for name in names)


def _date(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}" if at is not None else "unknown"


def _time(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}" if at is not None else "unknown"
