"""A store as it is for somebody who looks for observations of certain concepts or files.

The index has their words, which leaves few to look at; what an observation
really names is read from it. So more is asked for until enough is left, and
matches are counted one by one, as far as `COUNTED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from recollect.language.query import And, Node, Or, Word
from recollect.language.text import fold, has_token, tokens
from recollect.model.documents import Passage
from recollect.model.search import Filter
from recollect.store.base import Candidate, Space, Store

COUNTED = 10_000
_READ = 500  # passages at once
_AROUND = "`'\"()[]{}<>,;:!?."


class Observed:
    """Only what searching asks of a store is covered. Of what was found it remembers where it is."""

    def __init__(
        self, store: Store, concepts: Sequence[str] = (), files: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._concepts = [tokens(concept) for concept in concepts]
        self._files = [_of_file(file) for file in files]
        self._words = _all(_any(concepts), _any(map(_name, files)))
        self._checks = bool(concepts or files)
        self._known: dict[int, bool] = {}
        self.keys: dict[tuple[str, str], int] = {}
        """The keys of what was found, by document and id."""

    @property
    def store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        wanted = limit
        both = _all(node, self._words) or node
        while True:
            keys = self._store.match(both, filter, wanted)
            left = self._left(keys)
            if len(left) >= limit or len(keys) < wanted:
                return left[:limit]
            wanted = 2 * wanted + _READ

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        if not self._checks:
            return self._store.count(node, filter)
        found = len(self.match(node, filter, COUNTED + 1))
        return min(found, COUNTED), found <= COUNTED

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        if self._words is None:
            found = self._store.nearest(space, vector, filter, limit)
            left = set(self._left([key for key, _ in found]))
            return [(key, cosine) for key, cosine in found if key in left]
        near = self._store.cosines(
            space, vector, self._left(self._store.match(self._words, filter, COUNTED))
        )
        return sorted(near.items(), key=lambda each: -each[1])[:limit]

    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._shown(self._store.passages(keys, filter))

    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        """An observation does not answer the one before it."""
        return []

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        if not self._checks:
            found, total = self._store.newest(filter, limit, offset, by_document)
            return self._shown(found), total
        return self._page(self._store.newest(filter, COUNTED, 0, by_document), limit, offset)

    def find_literal(
        self, text: str, filter: Filter, limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        if not self._checks:
            found, total = self._store.find_literal(text, filter, limit, offset)
            return self._shown(found), total
        return self._page(self._store.find_literal(text, filter, COUNTED, 0), limit, offset)

    def _page(
        self, everything: tuple[list[Candidate], int], limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        found, total = everything
        shown = self._shown(found)
        return shown[offset : offset + limit], total - len(found) + len(shown)

    def _shown(self, found: Sequence[Candidate]) -> list[Candidate]:
        left = set(self._left([candidate.key for candidate in found]))
        shown = [candidate for candidate in found if candidate.key in left]
        self.keys |= {(candidate.document, candidate.id): candidate.key for candidate in shown}
        return shown

    def _left(self, keys: Sequence[int]) -> list[int]:
        """Those of these observations that are of what is looked for, in the order given."""
        if not self._checks:
            return list(keys)
        new = [key for key in keys if key not in self._known]
        for at in range(0, len(new), _READ):
            some = new[at : at + _READ]
            read = self._store.contents(some)
            self._known |= {key: key in read and self._is_of_them(read[key][1]) for key in some}
        return [key for key in keys if self._known[key]]

    def _is_of_them(self, passage: Passage) -> bool:
        about = passage.metadata
        if self._concepts:
            named = [tokens(str(concept)) for concept in about.get("concepts") or ()]
            if not any(_has(words, wanted) for words in named for wanted in self._concepts):
                return False
        if not self._files:
            return True
        paths = [
            _folded(str(path))
            for key in ("files_modified", "files_read")
            for path in about.get(key) or ()
        ]
        paths += [
            _folded(word.strip(_AROUND)) for word in passage.content.split()
        ]  # what is only mentioned
        return any(is_it(path) for path in paths for is_it in self._files)


def _has(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a concept is the one that is looked for, or more precise: `JWT` finds `JWT middleware`."""
    size = len(wanted)
    return bool(wanted) and any(
        words[at : at + size] == wanted for at in range(len(words) - size + 1)
    )


def _of_file(file: str) -> Callable[[str], bool]:
    """Whether a path is the file that is looked for: `auth.ts`, `src/auth` and the path as a whole find
    `/home/me/api/src/auth.ts`; so does a longer path which that one ends."""
    wanted = _folded(file)
    pattern = re.compile(rf"(?:^|/){re.escape(wanted)}(?:$|/|\.)")

    def is_it(path: str) -> bool:
        return bool(wanted) and (
            pattern.search(path) is not None or ("/" in path and wanted.endswith(f"/{path}"))
        )

    return is_it


def _folded(path: str) -> str:
    return fold(path.strip()).replace("\\", "/").removeprefix("./").strip("/")


def _name(file: str) -> str:
    return _folded(file).rpartition("/")[2]


def _any(texts: Iterable[str]) -> Node | None:
    """The words that one of these has; None where the index cannot tell."""
    given = tuple(texts)
    if not given or not all(map(has_token, given)):
        return None
    return Or(tuple(map(Word, given))) if len(given) > 1 else Word(given[0])


def _all(*nodes: Node | None) -> Node | None:
    parts = tuple(node for node in nodes if node is not None)
    return And(parts) if len(parts) > 1 else parts[0] if parts else None
