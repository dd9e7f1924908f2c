"""Renders a Helm chart without Helm, which is not available as a Python or npm package.

It knows the part of the template language that our chart uses, and raises an error for anything
else: fields and variables, pipelines of a few functions, `if`, `with`, `range`, `define` and
`include`. Values are merged and checked against `values.schema.json`, as Helm does.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

Values = dict[str, Any]
# A node is a text, ("print", pipeline) or (keyword, argument, nodes).
Node = Any
_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)


class Chart:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata: Values = yaml.safe_load((folder / "Chart.yaml").read_text("utf-8"))
        self.values: Values = yaml.safe_load((folder / "values.yaml").read_text("utf-8"))
        self.schema: Values = json.loads((folder / "values.schema.json").read_text("utf-8"))
        self._definitions: dict[str, list[Node]] = {}
        for file in sorted((folder / "templates").glob("*.tpl")):
            for node in parse(file.read_text("utf-8")):
                if isinstance(node, tuple) and node[0] == "define":
                    self._definitions[node[1].strip('"')] = node[2]

    def render(self, values: Values | None = None, release: str = "notes") -> dict[str, str]:
        """The text of each template by its name."""
        merged = merge(self.values, values or {})
        jsonschema.validate(merged, self.schema)
        context = {
            "Values": merged,
            "Chart": {"AppVersion": self.metadata["appVersion"], "Name": self.metadata["name"]},
            "Release": {"Name": release, "Service": "Helm"},
        }
        return {
            file.name: self._print(parse(file.read_text("utf-8")), context, {"$": context})
            for file in sorted((self.folder / "templates").iterdir())
            if file.suffix != ".tpl"
        }

    def objects(self, values: Values | None = None) -> dict[tuple[str, str], Values]:
        """The objects of Kubernetes by kind and name."""
        objects = {}
        for name, text in self.render(values).items():
            if not name.endswith(".yaml"):
                continue
            for item in yaml.safe_load_all(text):
                if item is not None:
                    objects[item["kind"], item["metadata"]["name"]] = item
        return objects

    def _print(self, nodes: list[Node], dot: Any, variables: Values) -> str:
        return "".join(self._print_node(node, dot, variables) for node in nodes)

    def _print_node(self, node: Node, dot: Any, variables: Values) -> str:
        if isinstance(node, str):
            return node
        keyword, argument, *rest = node
        if keyword == "print":
            value = self._evaluate(argument, dot, variables)
            return "" if value is None else to_text(value)
        if keyword == "define":
            return ""
        if keyword == "range":
            return "".join(self._repeat(argument, rest[0], dot, variables))
        value = self._evaluate(argument, dot, variables)
        if not value:
            return ""
        return self._print(rest[0], value if keyword == "with" else dot, variables)

    def _repeat(
        self, argument: str, nodes: list[Node], dot: Any, variables: Values
    ) -> Iterator[str]:
        names, _, source = argument.partition(":=")
        collection = self._evaluate(source.strip(), dot, variables)
        pairs = collection.items() if isinstance(collection, dict) else enumerate(collection)
        for key, value in sorted(pairs):
            *key_name, value_name = [name.strip() for name in names.split(",")]
            scope = variables | {value_name: value} | dict.fromkeys(key_name, key)
            yield self._print(nodes, dot, scope)

    def _evaluate(self, pipeline: str, dot: Any, variables: Values) -> Any:
        value: list[Any] = []
        for part in pipeline.split(" | "):
            value = [self._call(shlex.split(part, posix=False), value, dot, variables)]
        return value[0]

    def _call(self, words: list[str], piped: list[Any], dot: Any, variables: Values) -> Any:
        name, *rest = words
        arguments = [self._operand(word, dot, variables) for word in rest] + piped
        if name == "include":
            template, context = arguments
            return self._print(self._definitions[template], context, variables)
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*arguments)
        if arguments:
            raise ValueError(f"unknown function {name}")
        return self._operand(name, dot, variables)

    def _operand(self, word: str, dot: Any, variables: Values) -> Any:
        if word.startswith('"'):
            return word.strip('"')
        if word.isdecimal():
            return int(word)
        name, *path = word.split(".")
        value = variables[name] if name else dot
        for part in filter(None, path):
            value = value[part]  # a field that does not exist is an error
        return value


def parse(text: str) -> list[Node]:
    """The nodes of a template."""
    tokens = list(_tokens(text))
    nodes, rest = _parse_block(tokens, 0)
    if rest != len(tokens):
        raise ValueError("there is an `end` too many")
    return nodes


def _tokens(text: str) -> Iterator[Node]:
    """Texts and actions. A dash in an action removes the white space on its side."""
    place = 0
    trims_start = ""
    for match in _ACTION.finditer(text):
        trims_end, action, trims_next = match.groups()
        yield _trim(text[place : match.start()], trims_start, trims_end)
        yield ("action", action)
        place = match.end()
        trims_start = trims_next
    yield _trim(text[place:], trims_start, "")


def _trim(text: str, trims_start: str, trims_end: str) -> str:
    if trims_start:
        text = text.lstrip()
    if trims_end:
        text = text.rstrip()
    return text


def _parse_block(tokens: list[Node], place: int) -> tuple[list[Node], int]:
    nodes: list[Node] = []
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if isinstance(token, str):
            nodes.append(token)
            continue
        keyword, _, argument = token[1].partition(" ")
        if keyword == "end":
            return nodes, place
        if keyword in ("if", "with", "range", "define"):
            block, place = _parse_block(tokens, place)
            nodes.append((keyword, argument, block))
        elif keyword == "else":
            raise ValueError("`else` is not supported")
        else:
            nodes.append(("print", token[1]))
    return nodes, place


def merge(values: Values, changes: Values) -> Values:
    merged = dict(values)
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            value = merge(merged[name], value)
        merged[name] = value
    return merged


def to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _indent(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line if line else "" for line in text.split("\n"))


_FUNCTIONS: dict[str, Any] = {
    "default": lambda fallback, value: value or fallback,
    "join": lambda separator, items: separator.join(map(to_text, items)),
    "nindent": lambda width, text: _indent(width, text.strip("\n")),
    "quote": lambda value: json.dumps(to_text(value)),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True).rstrip("\n"),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda length, text: text[:length],
}
