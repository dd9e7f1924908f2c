"""Import libraries when a test uses them: every test process collects all files."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """A module that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for them in whatever it collects
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
