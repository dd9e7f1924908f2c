"""Group all passages that match a query. See Store.match_groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.sql.reading import match_groups
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions, document_conditions
from recollect.store.sqlite.text.verified_matches import index_query


def match_rows(
    db: Connection,
    node: Node | None,
    filter: Filter,
    matching_keys: Callable[[Node], Sequence[int]],
) -> list[tuple[Any, ...]]:
    """All passages that match, as `match_groups.match_rows` in `store.sql` returns them.

    `matching_keys` finds the matches of a query that the index alone cannot answer.
    """
    where, values = conditions(filter, many=True)
    source = "passage p"
    if node is not None:
        query = index_query(db, node)
        if query.is_exact:
            source = "passage_text t cross join passage p on p.key = t.rowid"
            where = f"passage_text match ? and {where}"
            values = [query.text, *values]
        else:
            source = "json_each(?) k cross join passage p on p.key = k.value"
            values = [json.dumps(matching_keys(node)), *values]
    if document_conditions(filter)[0] != "1":
        source += " cross join document d on d.key = p.document"
    return match_groups.match_rows(db, f"{source} where {where}", values)
