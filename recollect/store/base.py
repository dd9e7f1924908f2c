"""The contract of a store. Each module of `store/contract` has one part of it.

One store object serves one user's library. Every method is atomic and can be called from any
thread, and several processes may use one library at once. A write returns only after it is durable.
`tests/store` holds the test suite that every store passes.

Every method is marked as a reader (it returns stored data or passes it to a callback), a writer (it
stores or removes data), both, or neither. The views in `store/views` rely on these marks: the
redacting view must handle every writer, the audience view every reader. tests/store/test_views.py
checks that they do.
"""

from __future__ import annotations

from recollect.store.contract.care import Care
from recollect.store.contract.documents import Documents
from recollect.store.contract.observations import Observations
from recollect.store.contract.receipts import Receipts
from recollect.store.contract.text_search import TextSearch
from recollect.store.contract.transfer import Transfer
from recollect.store.contract.undo_log import UndoLog
from recollect.store.contract.vectors import Vectors


class Store(Documents, UndoLog, Observations, TextSearch, Vectors, Receipts, Transfer, Care):
    """One user's library. See the module docstring for what every method guarantees."""
