"""The part of a store that is the same on SQLite and PostgreSQL.

An engine provides three kinds of transactions (`_read`, `_write`, `_write_text`), its text queries,
and whatever differs: its own index, its vectors, and its care.
"""

from __future__ import annotations

from recollect.store.base import Store
from recollect.store.sql.parts.care import SqlCare
from recollect.store.sql.parts.documents import SqlDocuments
from recollect.store.sql.parts.observations import SqlObservations
from recollect.store.sql.parts.receipts import SqlReceipts
from recollect.store.sql.parts.text_search import SqlTextSearch
from recollect.store.sql.parts.transactions import Connection
from recollect.store.sql.parts.transfer import SqlTransfer
from recollect.store.sql.parts.undo_log import SqlUndoLog
from recollect.store.sql.parts.vectors import SqlVectors


class SqlStore(
    SqlDocuments[Connection],
    SqlUndoLog[Connection],
    SqlObservations[Connection],
    SqlTextSearch[Connection],
    SqlVectors[Connection],
    SqlReceipts[Connection],
    SqlTransfer[Connection],
    SqlCare[Connection],
    Store,
):
    """Each part is in a module of its own, like the parts of the contract."""
