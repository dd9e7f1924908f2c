"""Counts of what a library contains, the same for both databases.

Counting a million passages takes seconds, so the table `tally` has their numbers by role, model
and tool, and those of people's messages by time, source and project. Whoever adds, changes or
deletes passages updates it in the same transaction.
Numbers of documents are counted when they are asked for: there are far fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from recollect.language.text import fold, from_micros, iso
from recollect.model.kinds import CHARACTER, CONVERSATION, KINDS, MEDIA, NOTE, PROMPT
from recollect.settings import LIMITS
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import PASSAGE_COLUMNS, count_tags
from recollect.store.values import Activity

_MAX_NAMES = 200
_LONGEST_NAME = 200  # a key of an index cannot be much longer in PostgreSQL
_HOUR = 3_600_000_000
# Passages that are counted at once when all are.
_PASSAGES_PER_COUNT = 5_000
_BY_PEOPLE = f"d.kind = '{CONVERSATION}' and p.role = 'user' and p.type <> 'tool_result'"
"""Messages that people wrote, as opposed to models, tools, observations and imported documents."""
_COUNTED = itemgetter(*map(PASSAGE_COLUMNS.index, ("type", "role", "model", "tool", "created_at")))
_CONTENT = PASSAGE_COLUMNS.index("content")


# -- stored counts ---


class Owner(NamedTuple):
    """What counts of its document for a passage."""

    kind: str
    source: str
    project: str


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
    return tally((owner, *_COUNTED(row), len(row[_CONTENT])) for owner, row in passages)


def remove_passages(db: Database, keys: Sequence[int]) -> None:
    """Stop counting passages that are about to be deleted or changed."""
    members, value = db.in_list(keys)
    counts, _ = count_stored(db, f"p.key in ({members})", [value], len(keys))
    db.add_counts({key: -count for key, count in counts.items()})
    db.run(f"delete from tally where {db.own()} and count = 0")


def recount(db: Database) -> None:
    """Count all passages."""
    db.run(f"delete from {db.own_rows('tally')}")
    last: int | None = 0
    while last is not None:
        counts, last = count_stored(db, "p.key > ?", [last], _PASSAGES_PER_COUNT)
        db.add_counts(counts)


def count_stored(
    db: Database, where: str, values: Sequence[Any], limit: int
) -> tuple[dict[tuple[str, str], int], int | None]:
    """The same for stored passages, and the key of the last one."""
    rows = db.rows(
        "select p.key, coalesce(d.kind, ''), coalesce(d.source, ''), coalesce(d.project, ''), "
        "p.type, p.role, p.model, p.tool, p.created_at, length(p.content) "
        f"from passage p left join document d on {db.own('d')} and d.key = p.document "
        f"where {db.own('p')} and {where} order by p.key limit ?",
        (*values, limit),
    )
    counts = tally((Owner(*row[1:4]), *row[4:]) for row in rows)
    return counts, rows[-1][0] if rows else None


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


def tally(passages: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], int]:
    """Count passages by name and value: each has an owner, the columns _COUNTED, and a length."""
    # Many passages have the same features, which are counted first.
    features = Counter(
        (
            owner,
            type_,
            role,
            model,
            tool,
            None if created_at is None else created_at // _HOUR,
            length > LIMITS.indexed_characters,
        )
        for owner, type_, role, model, tool, created_at, length in passages
    )
    counts: Counter[tuple[str, str]] = Counter()
    for (owner, type_, role, model, tool, hour, is_long), count in features.items():
        is_message = owner.kind == CONVERSATION
        values = {
            "role": None if not is_message else "unknown" if role is None else role,
            "model": model,
            "tool": tool if type_ != "tool_result" else None,
            "long": "" if is_long else None,
        }
        if is_message and role == "user" and type_ != "tool_result":  # a person wrote it
            values |= {"source": owner.source, "project": owner.project}
            if hour is not None:
                values |= {"day": str(hour // 24), "hour": str(hour % 24)}
        for name, value in values.items():
            if value is not None:
                counts[name, value[:_LONGEST_NAME]] += count
    return counts


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
