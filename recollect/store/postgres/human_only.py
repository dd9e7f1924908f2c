"""A condition that selects the few passages that may be human-only.

The rule for human-only messages (`model/audience.py`) needs the parsed metadata. An index has this
condition, so searches for agents read only the metadata of the passages that it selects, and the
rule decides about these. The server updates the index whichever program writes.
"""

from __future__ import annotations

# What may be between letters: anything but letters and digits. JSON escapes some of it.
_SEPARATORS = r'(\\u[0-9a-f]{4}|\\.|[^"a-z0-9\\])*'


def _spelled(word: str) -> str:
    return "".join(_SEPARATORS + letter for letter in word) + _SEPARATORS


# Without question marks, which stand for values.
_MARK = (
    rf'"({_spelled("humanonly")}"\s*:|({_spelled("visibility")}|{_spelled("audience")})"\s*:'
    rf'[\s\[]*"{_spelled("human")})'
)


def may_be_human_only(prefix: str = "") -> str:
    """The condition on the columns of a passage. `prefix` is the alias of the table and a dot."""
    return (
        f"({prefix}visibility <> 'all' and {prefix}visibility <> 'hidden' "
        f"or {prefix}metadata ~* '{_MARK}')"
    )
