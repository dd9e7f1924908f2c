"""The text of a query tree, for round trips."""

from __future__ import annotations

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word


def unparse(node: Node) -> str:
    """A text that `parse` parses into the same tree."""
    match node:
        case Word(text, prefix):
            star = "*" * prefix
            return f'"{text}"{star}'
        case Near(parts, distance):
            return f"NEAR({' '.join(unparse(p) for p in parts)}, {distance})"
        case Not(part):
            return "NOT " + _parenthesize(part, And, Or)
        case And(parts):
            return " ".join(_parenthesize(p, And, Or) for p in parts)
        case Or(parts):
            return " OR ".join(_parenthesize(p, Or) for p in parts)


def _parenthesize(node: Node, *types: type[Node]) -> str:
    """The text of a node, in parentheses if it is of one of these types."""
    if type(node) in types:
        return f"({unparse(node)})"
    return unparse(node)
