"""YAML 1.2, plain values only.

PyYAML reads it, because most programs that write front matter are tested with it. But as in
version 1.2, `no` and `on` are strings, 012 and 12:30 are not numbers, and dates are strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from recollect.model.documents import Json

_C_PARSER_CHARACTERS = 4_096
"""A longer text may be nested so deeply that the C parser overflows the stack."""
_INTEGER = r"[-+]?(?:0|[1-9][0-9]{0,17})"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", _INTEGER, "-+0123456789"),
    ("float", rf"{_INTEGER}\.[0-9]{{1,30}}(?:[eE][-+][0-9]{{1,3}})?", "-+0123456789"),
)
_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _type, _pattern, _first_characters in _SCALARS:
    for _character in _first_characters:
        _resolver = (f"tag:yaml.org,2002:{_type}", re.compile(rf"(?:{_pattern})\Z"))
        _RESOLVERS.setdefault(_character, []).append(_resolver)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS


class _CLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes what a YAML 1.1 parser would misread, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def load(text: str) -> Any:
    """Parse a text. Raises ValueError with the number of the invalid line, if known."""
    loader = _CLoader if len(text) <= _C_PARSER_CHARACTERS else _Loader
    try:
        return yaml.load(text, loader)  # noqa: S506
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            raise ValueError("") from None
        raise ValueError(f"line {mark.line + 1}") from None


def dump(values: Mapping[str, Json]) -> str:
    text: str = yaml.dump(
        dict(values), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000
    )
    return text
