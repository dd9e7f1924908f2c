"""The packages that only documents need: the extra `documents`."""

from __future__ import annotations

from importlib.util import find_spec

from recollect.importers.texts import Unreadable


def require(package: str) -> None:
    """Raise Unreadable if a package of the extra is not installed."""
    if find_spec(package) is None:
        raise Unreadable("needs more packages: pip install 'recollect[documents]'")
