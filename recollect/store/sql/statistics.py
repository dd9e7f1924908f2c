"""Counts of what a library contains, the same for both databases.

Counting a million passages takes seconds, so the table `tally` has their numbers by role, model
and tool, and those of people's messages by time, source and project. Whoever adds, changes or
deletes passages updates it in the same transaction.
Numbers of documents are counted when they are asked for: there are far fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from recollect.language.text import fold, from_micros, iso
from recollect.model.kinds import CHARACTER, CONVERSATION, KINDS, MEDIA, NOTE, PROMPT
from recollect.settings import LIMITS
from recollect.store.sql.database import Database, set_marker
from recollect.store.sql.encoding import PASSAGE_COLUMNS, count_tags
from recollect.store.values import Activity

COUNTS = "counts"
"""The marker of a library whose passages are counted."""
VERSION = 2
_MAX_NAMES = 200
_LONGEST_NAME = 200  # a key of an index cannot be much longer in PostgreSQL
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_BY_PEOPLE = f"d.kind = '{CONVERSATION}' and p.role = 'user' and p.type <> 'tool_result'"
"""Messages that people wrote, as opposed to models, tools, observations and imported documents."""
_TYPE, _ROLE, _MODEL, _TOOL, _CREATED_AT, _CONTENT = (
    PASSAGE_COLUMNS.index(name)
    for name in ("type", "role", "model", "tool", "created_at", "content")
)


# -- stored counts ---


class Owner(NamedTuple):
    """What counts of its document for a passage."""

    kind: str
    source: str
    project: str


class _Features(NamedTuple):
    """What counts of a passage."""

    owner: Owner
    type: str
    role: str | None
    model: str | None
    tool: str | None
    hour: int | None
    """Hours from 1970 until it was written."""
    is_long: bool

    @property
    def is_by_person(self) -> bool:
        is_message = self.owner.kind == CONVERSATION and self.type != "tool_result"
        return is_message and self.role == "user"


def owners(db: Database, keys: Sequence[int]) -> dict[int, Owner]:
    """What counts of documents, by their keys."""
    members, value = db.in_list(keys)
    rows = db.rows(
        f"select key, kind, source, project from document where {db.own()} and key in ({members})",
        (value,),
    )
    return {key: Owner(*columns) for key, *columns in rows}


def add_passages(db: Database, passages: Iterable[tuple[Owner, Sequence[Any]]]) -> None:
    """Count new passages, given with their owner and the PASSAGE_COLUMNS."""
    db.add_counts(count_passages(passages))


def count_passages(
    passages: Iterable[tuple[Owner, Sequence[Any]]],
) -> dict[tuple[str, str], int]:
    """What passages add to the stored counts, by name and value."""
    # Many passages have the same features. As plain tuples, they are counted fastest.
    features = Counter(
        (
            owner,
            row[_TYPE],
            row[_ROLE],
            row[_MODEL],
            row[_TOOL],
            _hour(row[_CREATED_AT]),
            len(row[_CONTENT]) > LIMITS.indexed_characters,
        )
        for owner, row in passages
    )
    return tally(features)


def remove_passages(db: Database, keys: Sequence[int]) -> None:
    """Stop counting passages that are about to be deleted or changed."""
    members, value = db.in_list(keys)
    rows = db.rows(
        "select coalesce(d.kind, ''), coalesce(d.source, ''), coalesce(d.project, ''), "
        "p.type, p.role, p.model, p.tool, p.created_at, length(p.content) "
        f"from passage p left join document d on {db.own('d')} and d.key = p.document "
        f"where {db.own('p')} and p.key in ({members})",
        (value,),
    )
    features = Counter(
        (
            Owner(*owner),
            type_,
            role,
            model,
            tool,
            _hour(created_at),
            length > LIMITS.indexed_characters,
        )
        for *owner, type_, role, model, tool, created_at, length in rows
    )
    counts = tally(features)
    db.add_counts({key: -count for key, count in counts.items()})
    db.run(f"delete from tally where {db.own()} and count = 0")


def move_messages(db: Database, document: int, old_project: str, new_project: str) -> None:
    """Count the messages of a document in its new project."""
    count = db.get(
        "select count(*) from passage p join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and d.key = ? and {_BY_PEOPLE}",
        (document,),
    )
    if not count:
        return
    counts = Counter({("project", new_project[:_LONGEST_NAME]): count})
    counts["project", old_project[:_LONGEST_NAME]] -= count
    db.add_counts(counts)
    db.run(f"delete from tally where {db.own()} and count = 0")


def recount(db: Database) -> None:
    """Count all passages."""
    db.run(f"delete from {db.own_rows('tally')}")
    set_marker(db, COUNTS, VERSION)
    if not db.get(f"select exists (select 1 from passage where {db.own()})"):
        return
    role = short("coalesce(p.role, 'unknown')")
    day, time = floor_day("p.created_at")
    by_people = (
        "from passage p join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and {_BY_PEOPLE}"
    )
    dated = f"{by_people} and p.created_at is not null group by 2"
    for sql in (
        f"select 'role', {role}, count(*) from passage p "
        "join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and d.kind = '{CONVERSATION}' group by 2",
        f"select 'model', {short('model')}, count(*) from passage "
        f"where {db.own()} and model is not null group by 2",
        f"select 'tool', {short('tool')}, count(*) from passage "
        f"where {db.own()} and tool is not null and type <> 'tool_result' group by 2",
        f"select 'day', cast({day} as text), count(*) {dated}",
        f"select 'hour', cast({time} / {_HOUR} as text), count(*) {dated}",
        f"select 'source', {short('d.source')}, count(*) {by_people} group by 2",
        f"select 'project', {short('d.project')}, count(*) {by_people} group by 2",
        "select 'long', '', count(*) from passage "
        f"where {db.own()} and length(content) > {LIMITS.indexed_characters}",
    ):
        rows = db.rows(sql)
        db.add_counts({(name, value): count for name, value, count in rows if count})


def short(column: str) -> str:
    return f"substr({column}, 1, {_LONGEST_NAME})"


def floor_day(column: str) -> tuple[str, str]:
    """The day of a time as SQL, and the microseconds since its beginning."""
    # Division truncates, so it does not round times before 1970 down.
    time = f"(({column} % {_DAY}) + {_DAY}) % {_DAY}"
    return f"({column} - {time}) / {_DAY}", time


def _hour(created_at: int | None) -> int | None:
    if created_at is None:
        return None
    return created_at // _HOUR


def tally(passages: Mapping[tuple[Any, ...], int]) -> dict[tuple[str, str], int]:
    """Count passages by name and value, given how many have the same `_Features`."""
    counts: Counter[tuple[str, str]] = Counter()
    for values, count in passages.items():
        for name, value in counted_values(_Features(*values)):
            counts[name, value[:_LONGEST_NAME]] += count
    return counts


def counted_values(passage: _Features) -> Iterator[tuple[str, str]]:
    """The names and values under which a passage counts."""
    if passage.owner.kind == CONVERSATION:
        yield "role", role_name(passage.role)
    if passage.model is not None:
        yield "model", passage.model
    if passage.tool is not None and passage.type != "tool_result":
        yield "tool", passage.tool
    if passage.is_by_person:
        yield "source", passage.owner.source
        yield "project", passage.owner.project
        if passage.hour is not None:
            yield "day", str(passage.hour // 24)
            yield "hour", str(passage.hour % 24)
    if passage.is_long:
        yield "long", ""


def role_name(role: str | None) -> str:
    if role is None:
        return "unknown"
    return role


def stored_counts(db: Database, name: str) -> list[tuple[str, int]]:
    """The values that are counted under a name, most frequent first."""
    rows = db.rows(f"select value, count from tally where {db.own()} and name = ?", (name,))
    return largest(dict(rows))


def stored_numbers(db: Database, name: str) -> list[tuple[int, int]]:
    """The same for values that are numbers, in their order."""
    return sorted((int(value), count) for value, count in stored_counts(db, name))


def long_passages(db: Database) -> int:
    """The number of passages that are too long to be indexed as a whole."""
    return sum(count for _, count in stored_counts(db, "long"))


# -- counts of a library ---


def library_counts(db: Database) -> dict[str, object]:
    """The counts of Store.stats that do not depend on the database."""
    kinds: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    projects: Counter[str] = Counter()
    messages = 0
    for kind, source, project, documents, count in document_counts(db):
        if kind not in KINDS:  # observations are derived
            continue
        kinds[kind] += documents
        sources[source] += documents
        projects[project] += documents
        if kind == CONVERSATION:
            messages += count
    passages = db.own_rows("passage")
    return {
        "conversations": kinds[CONVERSATION],
        "messages": messages,
        "notes": kinds[NOTE],
        "media": kinds[MEDIA],
        "characters": kinds[CHARACTER],
        "prompts": kinds[PROMPT],
        "alternates": db.get(f"select count(*) from passage where {db.own()} and not canonical"),
        "sources": dict(largest(sources)),
        "projects": dict(largest(projects)[:100]),
        "roles": dict(stored_counts(db, "role")),
        "models": dict(stored_counts(db, "model")[:100]),
        "first": iso(from_micros(db.get(f"select min(created_at) from {passages}"))),
        "last": iso(from_micros(db.get(f"select max(created_at) from {passages}"))),
        "imports": db.get(f"select count(*) from receipt where {db.own()} and undone_at is null"),
        "words": db.get(f"select count(*) from {db.own_rows('word')}"),
    }


def document_counts(db: Database) -> list[tuple[str, str, str, int, int]]:
    """The numbers of documents and of their passages, by kind, source and project."""
    rows = db.rows(
        "select kind, source, project, count(*), sum(passages) "
        f"from {db.own_rows('document')} group by 1, 2, 3"
    )
    return [
        (kind, source, project, count, int(total)) for kind, source, project, count, total in rows
    ]


def largest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The names with the largest counts first. Equal counts are in the order of their names."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def facet_names(
    db: Database, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
) -> list[tuple[str, int]]:
    """See Store.facet_names."""
    counts: Mapping[str, int]
    if facet == "tags":
        counts = count_tags(db, kinds)
    elif facet == "media_types":
        members, value = db.in_list(list(kinds))
        rows = db.rows(
            "select media_type, count(*) from document "
            f"where {db.own()} and kind in ({members}) and media_type is not null group by 1",
            (value,),
        )
        counts = dict(rows)
    else:
        sources, projects = count_origins(db, kinds)
        counts = {"sources": sources, "projects": projects}[facet]
    part = fold(text)
    return [(name, count) for name, count in largest(counts) if part in fold(name)]


def count_origins(db: Database, kinds: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """The numbers of documents of these kinds, by source and by project."""
    sources: Counter[str] = Counter()
    projects: Counter[str] = Counter()
    members, value = db.in_list(list(kinds))
    rows = db.rows(
        "select kind, source, project, count(*) from document "  # in the order of an index
        f"where {db.own()} and kind in ({members}) group by 1, 2, 3",
        (value,),
    )
    for _, source, project, count in rows:
        sources[source] += count
        projects[project] += count
    return sources, projects


def activity(db: Database) -> Activity:
    """See Store.activity."""
    return Activity(
        days=stored_numbers(db, "day"),
        hours=stored_numbers(db, "hour"),
        sources=stored_counts(db, "source")[:_MAX_NAMES],
        projects=stored_counts(db, "project")[:_MAX_NAMES],
        models=stored_counts(db, "model")[:_MAX_NAMES],
        tools=stored_counts(db, "tool")[:_MAX_NAMES],
    )
