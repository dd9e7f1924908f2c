"""The reference pages of the documentation, generated from the code.

Each function returns Markdown (MyST) for one page of `docs/reference`: the commands, the REST API,
the MCP tools and the Python API. `tools/docs.py` puts it where the page says `<!-- generated -->`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

Schema = dict[str, Any]

COMMON_OPTIONS = frozenset({"-h", "--help", "--home", "--user", "--read-only"})
"""Options of every command. The page describes them once."""
METHODS = ("get", "post", "put", "patch", "delete")


def _cell(text: str) -> str:
    """Text for the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _table(columns: str, rows: Iterable[tuple[str, ...]]) -> str:
    names = columns.split(", ")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{text}`"


# -- commands -----------------------------------------------------------------


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command by its words, such as `backup list`, in the order of `--help`."""
    from recollect.cli import parser

    return dict(_subcommands(parser()))


def _subcommands(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    parser.format_help()  # loads the arguments of the command
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                path = (*words, name)
                yield " ".join(path), command
                yield from _subcommands(command, path)


def cli_page() -> str:
    from recollect.cli import COMMANDS, parser

    parts = ["## Options of every command", _options(parser(), COMMON_OPTIONS)]
    for name, command in commands().items():
        level = "##" if name in COMMANDS else "###"
        parts += [f"{level} recollect {name}", *_command_parts(command)]
    return "\n\n".join(parts)


def _command_parts(command: argparse.ArgumentParser) -> Iterator[str]:
    if command.description:
        yield command.description
    if command.prog == "recollect mcp":
        yield f"```text\n{_mcp_help()}\n```"
        return
    text = command.format_help()
    usage = text.partition("\n\n")[0].removeprefix("usage: ")
    first, *more = usage.splitlines()
    more = textwrap.dedent("\n".join(more)).splitlines()
    yield "\n".join(("```text", first, *(f"    {line}" for line in more), "```"))
    own_options = {
        flag for action in command._actions for flag in action.option_strings or (action.dest,)
    } - COMMON_OPTIONS
    options = _options(command, own_options)
    if options:
        yield options
    if command.epilog:
        yield f"```text\n{command.epilog.strip()}\n```"


def _mcp_help() -> str:
    """The help of the one command that does not use argparse, so that it starts fast."""
    from recollect.serve.mcp import stdio

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        stdio.main(["--help"])
    return output.getvalue().strip()


def _options(command: argparse.ArgumentParser, names: Iterable[str]) -> str:
    names = set(names)
    rows = []
    for action in command._actions:
        is_wanted = names.intersection(action.option_strings or (action.dest,))
        is_subcommand = isinstance(action, argparse._SubParsersAction)
        if is_wanted and not is_subcommand and action.help != argparse.SUPPRESS:
            rows.append((_option_names(action), _option_help(command, action)))
    return _table("option, meaning", rows) if rows else ""


def _option_names(action: argparse.Action) -> str:
    value = action.metavar or action.dest.upper()
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.choices is not None:
        value = "{" + ", ".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return _code(str(value))
    flags = ", ".join(map(_code, action.option_strings))
    if action.nargs == 0:
        return flags
    return f"{flags} {_code(str(value))}"


def _option_help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = command._get_formatter()._expand_help(action) if action.help else ""
    # Shell words such as `<id>` or `*` are no Markdown here.
    return re.sub(r"([*_<>])", r"\\\1", text)


# -- REST ---------------------------------------------------------------------


def openapi() -> Schema:
    from recollect.serve.app import make_app

    description: Schema = make_app(None).openapi()  # type: ignore[arg-type]
    return description


def rest_page(description: Schema) -> str:
    groups: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
                tag = (operation.get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append(_operation(method, path, operation))
    parts = []
    for tag, texts in groups.items():
        parts += [f"## {tag.capitalize()}", *texts]
    parts += ["## Schemas", *_schemas(description["components"]["schemas"])]
    return "\n\n".join(parts)


def _operation(method: str, path: str, operation: Schema) -> str:
    parts = [f"### `{method.upper()} {path}`"]
    summary = operation.get("summary", "")
    text = operation.get("description", "")
    parts.append(f"**{summary}.** {text}".strip())
    rows = [
        (
            _code(parameter["name"]),
            parameter["in"],
            _type(parameter["schema"]),
            _parameter_text(parameter),
        )
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        parts.append(_table("parameter, in, type, meaning", rows))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Body ({kind}): {_type(content.get('schema', {}))}.")
    responses = [
        (status, response["description"], _content(response))
        for status, response in operation["responses"].items()
    ]
    parts.append(_table("status, meaning, body", responses))
    return "\n\n".join(parts)


def _parameter_text(parameter: Schema) -> str:
    text = str(parameter.get("description", ""))
    schema = parameter["schema"]
    if parameter.get("required"):
        return f"Required. {text}"
    return f"{text} {_default(schema)}"


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if value in (None, [], ""):
        return ""
    return f"Default: `{json.dumps(value)}`."


def _content(response: Schema) -> str:
    texts = []
    for kind, content in response.get("content", {}).items():
        texts.append(_type(content["schema"]) if content.get("schema") else _code(kind))
    return ", ".join(texts)


def _type(schema: Schema) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(part) for part in schema[key]))
    if "enum" in schema:
        return ", ".join(_code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return _code(str(schema["const"]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(kind, list):
        return " or ".join(kind)
    return str(kind)


def _schemas(schemas: dict[str, Schema]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f"(schema-{name.lower()})=\n### {name}"
        if schema.get("description"):
            yield schema["description"]
        if schema.get("properties"):
            yield _table("field, type, meaning", _field_rows(schema))
        else:
            yield f"Type: {_type(schema)}."


def _field_rows(schema: Schema) -> Iterator[tuple[str, ...]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        text = f"{field.get('description', '')} {_default(field)}"
        if name in required:
            text = f"Required. {text}"
        yield _code(name), _type(field), text


# -- MCP tools ----------------------------------------------------------------


def mcp_page() -> str:
    from recollect.serve.mcp.catalog import Catalog
    from recollect.serve.mcp.toolsets import PROFILES, TOOLSETS

    rows = []
    for profile in PROFILES:
        tools = Catalog(profile).listing()
        tokens = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":"))) // 4
        names = ", ".join(_code(tool["name"]) for tool in tools)
        rows.append((_code(profile), names, f"{tokens:,}"))
    parts = ["## Profiles", _table("profile, tools, tokens of the list", rows)]
    for toolset in TOOLSETS.values():
        parts.append(f"## Toolset {toolset.name}")
        for tool in toolset.tools:
            parts += [f"(tool-{toolset.name}-{tool.name})=\n### `{tool.name}`", tool.description]
            parts.append(_access(tool))
            if tool.input_schema.get("properties"):
                parts.append(_table("argument, type, meaning", _argument_rows(tool.input_schema)))
    return "\n\n".join(parts)


def _access(tool: Any) -> str:
    if tool.is_read_only:
        return "*Read-only.*"
    if tool.annotations["destructiveHint"]:
        return "*Writes: may change or delete.*"
    return "*Writes: adds, but never changes or deletes.*"


def _argument_rows(schema: Schema) -> Iterator[tuple[str, ...]]:
    for name, kind, text in _field_rows(schema):
        yield name, kind, text
        nested = schema["properties"][name.strip("`")]
        if nested.get("type") == "object" and nested.get("properties"):
            for inner, inner_kind, inner_text in _field_rows(nested):
                yield f"{name} › {inner}", inner_kind, inner_text


# -- Python -------------------------------------------------------------------

PYTHON_EXTRAS = {
    "recollect.knowledge.api": ("Knowledge",),
    "recollect.knowledge.options": ("KnowledgeOptions",),
    "recollect.knowledge.retrieval": ("Retrieval",),
    "recollect.memory.api": ("Memory",),
    "recollect.model.forgetting": ("Selection",),
    "recollect.persistence": ("PersistenceApi",),
    "recollect.places": ("move",),
}
"""Names that the guides use besides those of `import recollect`."""
CONSTRUCTED = frozenset({"PersistenceApi"})
"""Classes without fields that callers construct themselves."""


def python_page() -> str:
    import recollect

    parts = ["## recollect", "```{py:module} recollect\n```"]
    parts += [_definition(getattr(recollect, name), name) for name in recollect.__all__]
    for module_name, names in PYTHON_EXTRAS.items():
        module = importlib.import_module(module_name)
        parts += [f"## {module_name}", f"```{{py:module}} {module_name}\n```"]
        parts += [_definition(getattr(module, name), name) for name in names]
    errors = importlib.import_module("recollect.errors")
    parts += ["## recollect.errors", "```{py:module} recollect.errors\n```"]
    for name, value in vars(errors).items():
        if isinstance(value, type) and value.__module__ == errors.__name__:
            parts.append(_directive("py:exception", name, inspect.getdoc(value) or "", 3))
    return "\n\n".join(parts)


def _definition(value: Any, name: str) -> str:
    if inspect.isclass(value):
        return _class(value, name)
    return _directive("py:function", f"{name}{_signature(value)}", inspect.getdoc(value) or "", 3)


def _directive(kind: str, argument: str, body: str, colons: int) -> str:
    fence = ":" * colons
    return f"{fence}{{{kind}}} {argument}\n\n{_docstring(body)}\n{fence}"


def _docstring(text: str) -> str:
    """A docstring as Markdown: indented paragraphs are code."""
    return re.sub(r"(?m)^( {4}.*(?:\n(?: {4}.*|\s*$))*)", _code_block, text)


def _code_block(match: re.Match[str]) -> str:
    return f"```python\n{textwrap.dedent(match[1]).rstrip()}\n```\n"


def _class(value: type, name: str) -> str:
    body = [_docstring(_class_text(value))]
    fields = [
        (_code(field), _code(annotation), text) for field, annotation, text in _attributes(value)
    ]
    if fields:
        body.append(_table("field, type, meaning", fields))
    for member_name, member in _members(value).items():
        body += _member(member_name, member)
    signature = ""
    if name in CONSTRUCTED:
        signature = _signature(value)
    inner = "\n\n".join(part for part in body if part.strip())
    return f"::::{{py:class}} {name}{signature}\n\n{inner}\n::::"


def _members(value: type) -> dict[str, Any]:
    """The members of a class and its bases, in the order of the code."""
    members: dict[str, Any] = {}
    for base in value.__mro__:
        if base.__module__.startswith("recollect"):
            for name, member in vars(base).items():
                members.setdefault(name, member)
    return members


def _class_text(value: type) -> str:
    text = inspect.getdoc(value) or ""
    if dataclasses.is_dataclass(value) and text.startswith(f"{value.__name__}("):
        return ""  # generated by dataclasses
    return text


def _member(name: str, member: Any) -> Iterator[str]:
    if name.startswith("_"):
        return
    options = ""
    if isinstance(member, property | staticmethod | classmethod):
        options = f":{type(member).__name__}:"
    if isinstance(member, property):
        text = _docstring(inspect.getdoc(member.fget) or "")
        yield f":::{{py:property}} {name}\n\n{text}\n:::"
        return
    function = getattr(member, "__func__", member)
    if inspect.isfunction(function):
        signature = _signature(function, bound=not isinstance(member, staticmethod))
        text = _docstring(inspect.getdoc(function) or "")
        yield f":::{{py:method}} {name}{signature}\n{options}\n\n{text}\n:::"


def _signature(function: Any, *, bound: bool = False) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "()"
    parameters = list(signature.parameters.values())
    if bound:
        parameters = parameters[1:]
    # A default without a literal, such as an object, is shown as dots.
    for index, parameter in enumerate(parameters):
        if not isinstance(parameter.default, str | int | float | tuple | type(None) | type):
            parameters[index] = parameter.replace(default=...)
    return str(signature.replace(parameters=parameters)).replace("'", "").replace("Ellipsis", "...")


def _attributes(value: type) -> Iterator[tuple[str, str, str]]:
    """The annotated attributes of a class with the texts below them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for statement, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_"):
                yield name, ast.unparse(statement.annotation), _text_of(following)


def _text_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return ""
