"""A Citus cluster for the tests: a coordinator and two workers on this machine.

RECOLLECT_CITUS is the folder of a PostgreSQL installation that has Citus (`bin/initdb`,
`bin/pg_ctl`, `lib/citus.so`). Or it is the URL of the coordinator of a cluster that runs already;
its role must be a superuser on every node. Then the tests that stop or add nodes are skipped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.citus import Cluster, require_citus

VARIABLE = "RECOLLECT_CITUS"
MISSING = (
    f"There is no Citus cluster. Set {VARIABLE} to the URL of a coordinator, or to the folder of a "
    "PostgreSQL installation that has Citus."
)


class ForeignCluster:
    """A cluster that somebody else runs."""

    def __init__(self, url: str) -> None:
        self.url = url


@contextmanager
def start() -> Iterator[Cluster | ForeignCluster]:
    """The cluster that RECOLLECT_CITUS names. Skips the test if there is none."""
    place = os.environ.get(VARIABLE, "")
    if not place:
        pytest.skip(MISSING)
    if "://" in place:
        yield ForeignCluster(place)
        return
    try:
        require_citus(Path(place))
    except FileNotFoundError as error:
        pytest.skip(f"{VARIABLE}: {error}")
    with (
        tempfile.TemporaryDirectory(
            prefix="recollect-citus-", ignore_cleanup_errors=True
        ) as folder,
        # Each database of a cluster needs background workers.
        Cluster(Path(place), Path(folder), settings={"max_worker_processes": "100"}) as cluster,
    ):
        yield cluster
