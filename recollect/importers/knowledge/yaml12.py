"""YAML by the rules of its version 1.2, of plain values alone.

PyYAML reads it, which most programs that write front matter are tested against.
But there `no` and `on` are words, 012 and 12:30 are no numbers, and dates are texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from recollect.model.documents import Json

_QUICK = 4_096
"""A longer text may be nested so deeply that a parser in C runs out of stack; the one in Python says so."""
_NUMBER = r"[-+]?(?:0|[1-9][0-9]{0,17})"
_MEANINGS = (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", _NUMBER, "-+0123456789"),
    ("float", rf"{_NUMBER}\.[0-9]{{1,30}}(?:[eE][-+][0-9]{{1,3}})?", "-+0123456789"),
)
_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _kind, _pattern, _starts in _MEANINGS:
    for _start in _starts:
        _meaning = (f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"))
        _RESOLVERS.setdefault(_start, []).append(_meaning)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS


class _QuickLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """What a reader of YAML 1.1 would take for something else is quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def loaded(text: str) -> Any:
    """The value. Raises ValueError, which says in which line it is wrong where that is known."""
    loader = _QuickLoader if len(text) <= _QUICK else _Loader
    try:
        return yaml.load(text, loader)  # noqa: S506
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"line {mark.line + 1}" if mark is not None else "") from None


def dumped(values: Mapping[str, Json]) -> str:
    text: str = yaml.dump(
        dict(values), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000
    )
    return text
