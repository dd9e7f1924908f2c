"""Synonyms of technical terms, which the built-in embedding model does not relate.

The list that comes with Recollect is `synonyms.txt`. The setting `synonyms` names a file with more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.language.text import tokens
from recollect.settings import SYNONYMS

FILE = Path(__file__).with_name("synonyms.txt")

Phrase = tuple[str, ...]
"""Consecutive words; usually just one."""


def synonyms(words: Sequence[str]) -> list[list[Phrase]]:
    """For each word, the others of the groups that it is in. Raises InvalidInput."""
    if not words:
        return []
    groups, own_groups = _groups(FILE), _own_groups()
    return [groups.get((word,), []) + own_groups.get((word,), []) for word in words]


def synonyms_version() -> tuple[Path, int] | None:
    """The file that the user added, and when it was changed. Raises InvalidInput."""
    name = SYNONYMS.get()
    if not name:
        return None
    path = expand_path(name)
    try:
        return path, path.stat().st_mtime_ns
    except OSError as error:
        raise InvalidInput(f"The file of synonyms cannot be read: {error}") from error


def _own_groups() -> dict[Phrase, list[Phrase]]:
    """The groups of the file that the user added."""
    version = synonyms_version()
    if version is None:
        return {}
    return _groups(*version)


@lru_cache(maxsize=2)
def _groups(path: Path, modified_at: int = 0) -> dict[Phrase, list[Phrase]]:
    """The synonyms of every word in a file. `modified_at` is only part of the cache key."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The file of synonyms {path} cannot be read: {error}") from error
    return _parse(lines)


def _parse(lines: Iterable[str]) -> dict[Phrase, list[Phrase]]:
    groups: dict[Phrase, list[Phrase]] = {}
    for line in lines:
        if line.startswith("#"):
            continue
        phrases = [tuple(tokens(text)) for text in line.split(",")]
        phrases = [phrase for phrase in phrases if phrase]
        for phrase in phrases:
            groups.setdefault(phrase, []).extend(p for p in phrases if p != phrase)
    return groups
