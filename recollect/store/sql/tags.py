"""Columns of a document for its tags, the same for both databases.

`tags` has the folded names, for filters. `tag_names` has them as they are written, for counting:
documents with the same tags have the same value, so few values are parsed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recollect.language.text import fold, storable
from recollect.store.sql.database import Database

# Surrounds every tag in the column `tags`.
_DELIMITER = "\x1f"


def tag_columns(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    tags = metadata.get("tags")
    folded_tags = _delimit(_filter_values(tags))
    names = None
    if folded_tags:
        names = _dump_names(tags)
    return {"tags": folded_tags, "tag_names": names}


def tag_pattern(tag: str) -> str:
    """What the column `tags` of a document with this tag contains."""
    return _delimit([tag])


def _filter_values(tags: Any) -> list[str]:
    if tags is None:
        values: Iterable[Any] = ()
    elif isinstance(tags, Mapping):
        values = tags.values()
    elif isinstance(tags, list):
        values = tags
    else:
        values = (tags,)
    return [storable(str(value)) for value in values]


def _delimit(tags: Iterable[str]) -> str:
    return "".join(f"{_DELIMITER}{fold(tag).replace(_DELIMITER, ' ')}{_DELIMITER}" for tag in tags)


def _dump_names(tags: Any) -> str:
    if not isinstance(tags, list):
        tags = [tags]
    return json.dumps([str(tag) for tag in tags if tag])


def count_tags(db: Database, kinds: Sequence[str]) -> Counter[str]:
    """The number of documents of these kinds with each tag."""
    counts: Counter[str] = Counter()
    members, value = db.in_list(list(kinds))
    rows = db.rows(
        "select tag_names, count(*) from document "
        f"where {db.own()} and kind in ({members}) and tag_names is not null group by 1",
        (value,),
    )
    for names, count in rows:
        for name in json.loads(names):
            counts[name] += count
    return counts
