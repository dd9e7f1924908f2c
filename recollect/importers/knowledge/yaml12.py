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
_MAX_DEPTH = 100
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_INTEGER = r"[-+]?(?:0|[1-9][0-9]{0,17})"
_DECIMAL = rf"{_INTEGER}\.[0-9]{{1,30}}(?:[eE][-+][0-9]{{1,3}})?"
_INTEGER_PATTERN = re.compile(_INTEGER)
_DECIMAL_PATTERN = re.compile(rf"{_INTEGER}|{_DECIMAL}")
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", _INTEGER, "-+0123456789"),
    ("float", _DECIMAL, "-+0123456789"),
)
_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _type, _pattern, _first_characters in _SCALARS:
    for _character in _first_characters:
        _resolver = (f"{_TAG}{_type}", re.compile(rf"(?:{_pattern})\Z"))
        _RESOLVERS.setdefault(_character, []).append(_resolver)


class _PlainValues:
    """The constructor of values. Everything that could make a short text expensive is left out.

    There are no merge keys, whose cost doubles with each level, and no numbers but those of YAML
    1.2: `!!int` and `!!float` before another text leave it a text.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise yaml.constructor.ConstructorError(
                    None, None, "merge keys are not supported", key.start_mark
                )

    def construct_integer(self, node: yaml.Node) -> int | str:
        text = str(self.construct_scalar(node))  # type: ignore[attr-defined]
        if _INTEGER_PATTERN.fullmatch(text):
            return int(text)
        return text

    def construct_decimal(self, node: yaml.Node) -> float | str:
        text = str(self.construct_scalar(node))  # type: ignore[attr-defined]
        if _DECIMAL_PATTERN.fullmatch(text):
            return float(text)
        return text


class _Loader(_PlainValues, yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        """Reject deep nesting early: every open bracket slows down the scanner."""
        if self.flow_level > _MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, "nested too deeply", self.get_mark())
        super().fetch_flow_collection_start(token_class)


_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CLoader(_PlainValues, _CSafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers = _RESOLVERS


for _loader in (_Loader, _CLoader):
    _loader.add_constructor(f"{_TAG}int", _PlainValues.construct_integer)
    _loader.add_constructor(f"{_TAG}float", _PlainValues.construct_decimal)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes what a YAML 1.1 parser would misread, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def load(text: str) -> Any:
    """Parse a text. Raises ValueError with the number of the invalid line, if known."""
    loader = _CLoader if len(text) <= _C_PARSER_CHARACTERS else _Loader
    try:
        return yaml.load(text, loader)  # noqa: S506
    except Exception as error:  # PyYAML raises many kinds for values of a wrong type
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            raise ValueError("") from None
        raise ValueError(f"line {mark.line + 1}") from None


def dump(values: Mapping[str, Json]) -> str:
    text: str = yaml.dump(
        dict(values), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000
    )
    return text
