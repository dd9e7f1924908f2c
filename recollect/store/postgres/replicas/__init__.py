"""Streaming replicas of a database, which answer searches.

Only reads inside `Store.snapshot` use a replica. All other reads and all writes use the primary, so
nothing is ever decided or changed on the basis of an older state.

- What this process wrote for a user is always seen. Each commit stores a random token with the
  user's rows. For a while after a commit, a replica is used only if the transaction there sees the
  token (`OwnWrites`).
- What other processes wrote is seen after RECOLLECT_REPLICA_SECONDS at the latest. This process
  notes regularly where the log of the primary ends. A replica that has replayed the log up to there
  is as new as the note (`LogPositions`). Clocks of other machines are not compared, and a primary
  without writes does not make a replica look old.
- A search does not go back in time: it stays on one replica, or continues on the primary.
"""

from recollect.store.postgres.replicas.replica import (
    BEGIN_SECONDS,
    REPLAYED_POSITION,
    Replica,
    ReplicaStatus,
)
from recollect.store.postgres.replicas.replicas import Replicas, inspect_replicas

__all__ = [
    "BEGIN_SECONDS",
    "REPLAYED_POSITION",
    "Replica",
    "ReplicaStatus",
    "Replicas",
    "inspect_replicas",
]
