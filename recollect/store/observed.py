"""A view of a store for searching observations of certain concepts or files.

The words of concepts and files are in the text index, which leaves few observations to check. What
an observation really names is read from its metadata. The view asks for more matches until enough
remain, and counts matches one by one, up to `MAX_COUNTED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from recollect.language.queries.query_tree import And, Node, Or, Word
from recollect.language.text import fold, has_token, tokens
from recollect.model.documents import Passage
from recollect.model.search import Filter
from recollect.store.audience import enough
from recollect.store.base import Passages, Store
from recollect.store.values import Candidate, CandidatePage, Space
from recollect.store.views import StoreView

# Larger counts are lower bounds.
MAX_COUNTED = 10_000
_PASSAGES_PER_QUERY = 500
_PUNCTUATION = "`'\"()[]{}<>,;:!?."


class ObservationStore(StoreView):
    """A store for searching observations; it remembers the keys of the results."""

    def __init__(
        self, store: Store, concepts: Sequence[str] = (), files: Sequence[str] = ()
    ) -> None:
        super().__init__(store)
        self._concepts = [tokens(concept) for concept in concepts]
        self._files = [file_matcher(file) for file in files]
        self._words = _and(any_word(concepts), any_word([file_name(file) for file in files]))
        self.is_filtered = bool(concepts or files)
        """Whether only observations of some concepts or files are searched."""
        self._checks: dict[int, bool] = {}
        self.keys: dict[tuple[str, str], int] = {}
        """The keys of the results, by document and passage id."""

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        query = _and(node, self._words) or node
        return enough(limit, lambda n: self._store.match(query, filter, n), self._matching)

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        if not self.is_filtered:
            return self._store.count(node, filter)
        matches = len(self.match(node, filter, MAX_COUNTED + 1))
        return min(matches, MAX_COUNTED), matches <= MAX_COUNTED

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        if self._words is None:
            neighbours = self._store.nearest(space, vector, filter, limit)
            matching = set(self._matching([key for key, _ in neighbours]))
            return [(key, cosine) for key, cosine in neighbours if key in matching]
        keys = self._matching(self._store.match(self._words, filter, MAX_COUNTED))
        cosines = self._store.cosines(space, vector, keys)
        return sorted(cosines.items(), key=lambda pair: -pair[1])[:limit]

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        if previous:
            return []  # an observation does not answer the one before it
        return self._matching_candidates(self._store.candidates(passages, filter))

    def newest(self, filter: Filter, limit: int, offset: int = 0, **options: Any) -> CandidatePage:
        if not self.is_filtered:
            page = self._store.newest(filter, limit, offset, **options)
            return page._replace(candidates=self._matching_candidates(page.candidates))
        candidates, total, is_complete = self._store.newest(filter, MAX_COUNTED, **options)
        matching = self._matching_candidates(candidates)
        total += len(matching) - len(candidates)
        return CandidatePage(matching[offset : offset + limit], total, is_complete)

    def _matching_candidates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        keys = set(self._matching([candidate.key for candidate in candidates]))
        matching = [candidate for candidate in candidates if candidate.key in keys]
        for candidate in matching:
            self.keys[candidate.document, candidate.id] = candidate.key
        return matching

    def _matching(self, keys: Sequence[int]) -> list[int]:
        """The keys of the observations that name the concepts and files, in the same order."""
        if not self.is_filtered:
            return list(keys)
        unchecked = [key for key in keys if key not in self._checks]
        for start in range(0, len(unchecked), _PASSAGES_PER_QUERY):
            batch = unchecked[start : start + _PASSAGES_PER_QUERY]
            stored = self._store.passages_by_key(batch)
            for key in batch:
                self._checks[key] = key in stored and self._is_match(stored[key][1])
        return [key for key in keys if self._checks[key]]

    def _is_match(self, passage: Passage) -> bool:
        metadata = passage.metadata
        names = [tokens(str(concept)) for concept in metadata.get("concepts") or ()]
        has_concept = any(contains(name, concept) for name in names for concept in self._concepts)
        if not self._files:
            return has_concept
        paths = [word.strip(_PUNCTUATION) for word in passage.content.split()]
        for field in ("files_modified", "files_read"):
            paths += [str(path) for path in metadata.get(field) or ()]
        normal_paths = [normalize_path(path) for path in paths]
        has_file = any(is_file(path) for path in normal_paths for is_file in self._files)
        return has_file and (has_concept or not self._concepts)


def contains(name: Sequence[str], concept: Sequence[str]) -> bool:
    """Whether a name is the concept or a more precise one: `JWT` matches `JWT middleware`."""
    size = len(concept)
    if not size:
        return False
    return any(name[start : start + size] == concept for start in range(len(name) - size + 1))


def file_matcher(file: str) -> Callable[[str], bool]:
    """A function that tells whether a path is the given file.

    `auth.ts`, `src/auth` and the whole path match `/home/me/api/src/auth.ts`. So does a longer path
    that ends in the observed path.
    """
    file_path = normalize_path(file)
    pattern = re.compile(rf"(?:^|/){re.escape(file_path)}(?:$|/|\.)")

    def is_file(path: str) -> bool:
        if not file_path:
            return False
        if pattern.search(path) is not None:
            return True
        return "/" in path and file_path.endswith(f"/{path}")

    return is_file


def normalize_path(path: str) -> str:
    return fold(path.strip()).replace("\\", "/").removeprefix("./").strip("/")


def file_name(file: str) -> str:
    return normalize_path(file).rpartition("/")[2]


def any_word(texts: Iterable[str]) -> Node | None:
    """A query for any of these texts, or None if the index cannot tell."""
    words = tuple(Word(text) for text in texts)
    if not words or not all(has_token(word.text) for word in words):
        return None
    return words[0] if len(words) == 1 else Or(words)


def _and(*nodes: Node | None) -> Node | None:
    parts = tuple(node for node in nodes if node is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    return And(parts)
