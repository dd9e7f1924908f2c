"""All passages that match a query, for a statement that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.sql.reading.selection import few_documents
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions, document_conditions
from recollect.store.sqlite.passages.scans import scan_by_key
from recollect.store.sqlite.text.verified_matches import index_query


def match_source(
    db: Connection,
    node: Node | None,
    filter: Filter,
    matching_keys: Callable[[Node], Sequence[int]],
) -> tuple[str, list[Any]]:
    """The end of a statement that selects each passage `p` that matches, with its values.

    `matching_keys` finds the matches of a query that the index alone cannot answer, or those of
    one kind: volumes have an index for each, while FTS5 would find the matches of all kinds.
    """
    if node is None:
        scan = scan_by_key(db, filter, few_documents(db, filter))
        source, where, values = scan.source, scan.where, scan.values
        has_documents = scan.needs_documents
    else:
        where, values = conditions(filter, many=True)
        query = index_query(db, node)
        if query.is_exact and not filter.kinds:
            source = "passage_text t cross join passage p on p.key = t.rowid"
            where = f"passage_text match ? and {where}"
            values = [query.text, *values]
        else:
            source = "json_each(?) k cross join passage p on p.key = k.value"
            values = [json.dumps(sorted(matching_keys(node))), *values]
        has_documents = document_conditions(filter)[0] != "1"
    if has_documents:
        source += " cross join document d on d.key = p.document"
    return f"{source} where {where}", values
