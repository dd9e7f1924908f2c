"""Group all passages that match a query. See Store.match_groups."""

from __future__ import annotations

from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.sql.reading import match_groups
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions, document_conditions
from recollect.store.sqlite.text.fts_query import fts_query


def match_rows(db: Connection, node: Node | None, filter: Filter) -> list[tuple[Any, ...]]:
    """All passages that match, as `match_groups.match_rows` in `store.sql` returns them."""
    where, values = conditions(filter, many=True)
    source = "passage p"
    if node is not None:
        source = "passage_text t cross join passage p on p.key = t.rowid"
        where = f"passage_text match ? and {where}"
        values = [fts_query(node), *values]
    if document_conditions(filter)[0] != "1":
        source += " cross join document d on d.key = p.document"
    return match_groups.match_rows(db, f"{source} where {where}", values)
