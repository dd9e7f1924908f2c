"""A server that runs while a test does."""

from __future__ import annotations

from dataclasses import dataclass

import recollect
from recollect.serve.http.service import Service

TIMEOUT = 60_000  # milliseconds; a busy machine must not fail a test


@dataclass(frozen=True)
class Site:
    """A running server."""

    url: str
    place: str
    service: Service
    library: recollect.Library
    """Another connection to the same library."""
