"""Later decisions that replace earlier ones.

Whether a decision is superseded is derived from the observations whenever it is needed, and
stored nowhere. So it does not matter in which order observations are made, and making them again
changes nothing. Both decisions stay: the later one comes first, and the earlier one can say by what
it was superseded.

A decision replaces an earlier one of the same project if it is about the same topic and

- a sentence of it that speaks of a change ("we drop Tailwind") has a word that, among the decisions
  of the project, is particular to the two of them; or
- the same file was changed; or
- nearly everything is the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from recollect.language.languages import LATIN
from recollect.language.text import indexable
from recollect.memory.formats import conversation_path
from recollect.memory.observe import from_passage
from recollect.memory.observe.cues import CHANGE
from recollect.memory.observe.prose import split_sentences
from recollect.memory.observe.sentence_words import terms_of_word, words
from recollect.memory.observe.storing import CONCEPTS, FILES, searchable_text
from recollect.memory.results import MemoryHit, ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import Candidate

DECISIONS = ("decision", "preference")
_MAX_DECISIONS = 200
"""How many of the newest decisions of a project are compared."""
_PARTICULAR = 3
"""A word is particular to decisions if at most this many of the project have it."""
_SIMILARITY_OF_CHANGE = 0.06
_SIMILARITY_OF_CHANGE_IN_FILE = 0.1
_SIMILARITY_IN_FILE = 0.15
_SIMILARITY_ALONE = 0.5
_UNSPACED = re.compile("[\u3400-\u9fff]{2,}|[\u30a1-\u30fa\u30fc]{3,}|[\uac00-\ud7a3]{2,}")

_DONE = re.compile(f"(?:Ran `|Modified |Created |Deleted |Renamed |Committed: |{CONCEPTS})")
# What any decision may say: that something was decided, changed or done.
_DECISION_WORDS = (
    "abandon agree change choose chose chosen commit committed decide decided decision ditch done "
    "drop dropped go going keep let migrate migrated move moved pick picked remove removed replace "
    "replaced retire scrap settle settled stay switch switched use used"
)


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(indexable(word) for language in LATIN for word in language.stop_words)


def find_successors(store: Store, observations: Iterable[Observation]) -> dict[str, Observation]:
    """The decision that replaces each of these observations, by the id of the earlier one."""
    earlier = [each for each in observations if _is_decision(each)]
    result: dict[str, Observation] = {}
    for project in dict.fromkeys(each.project for each in earlier):
        of_project = [each for each in earlier if each.project == project]
        result |= _find_successors(store, project, of_project)
    return result


def _find_successors(
    store: Store, project: str, earlier: Sequence[Observation]
) -> dict[str, Observation]:
    candidates = {each.id: each for each in _later_decisions(store, project, earlier)}
    texts = {each.id: _text(each) for each in earlier}
    texts |= {
        each.id: _Text(each.id, each.created_at, each.content) for each in candidates.values()
    }
    topics = _Topics(texts.values())
    ids = {each.id: topics.successor(each.id) for each in earlier}
    keys = [candidates[id_].key for id_ in set(ids.values()) if id_ in candidates]
    by_id = {each.id: each for each in earlier}
    if keys:
        for _, passage in store.passages_by_key(keys).values():
            by_id[passage.id] = from_passage(passage, project)
    return {id_: by_id[later] for id_, later in ids.items() if later in by_id}


def _later_decisions(store: Store, project: str, earlier: Sequence[Observation]) -> list[Candidate]:
    filter_ = Filter(
        hidden=True,
        kinds=(OBSERVATION,),
        projects=(project,),
        roles=DECISIONS,
        after=min(each.created_at for each in earlier if each.created_at is not None),
    )
    return store.recent(None, filter_, _MAX_DECISIONS)


def successors(decisions: Sequence[Observation]) -> dict[str, Observation]:
    """For each superseded decision of a project, the newest one that replaces it, by id.

    If A is replaced by B, and B by C, then C is the successor of both.
    """
    by_id = {each.id: each for each in decisions if _is_decision(each)}
    topics = _Topics(map(_text, by_id.values()))
    result: dict[str, Observation] = {}
    for id_ in by_id:
        successor = topics.successor(id_)
        if successor is not None:
            result[id_] = by_id[successor]
    return result


def _is_decision(observation: Observation) -> bool:
    return observation.type in DECISIONS and observation.created_at is not None


def promote(
    hits: Sequence[MemoryHit], successors: Mapping[str, Observation], *, insert: bool = True
) -> list[MemoryHit]:
    """The hits in their order, but each decision before those that it replaces.

    The earlier decision names its successor. With `insert`, a successor that was not found itself
    is added, so that nobody reads only the superseded decision.
    """
    by_id = {hit.observation.id: hit for hit in hits if isinstance(hit, ObservationHit)}
    result: list[MemoryHit] = []
    ids: set[str] = set()
    for hit in hits:
        if not isinstance(hit, ObservationHit):
            result.append(hit)
            continue
        successor = successors.get(hit.observation.id)
        if successor is not None:
            later = by_id.get(successor.id)
            if later is None and insert:
                path = conversation_path(successor.project, successor.conversation)
                later = ObservationHit(successor, path, hit.score)
            if later is not None and successor.id not in ids:
                result.append(later._replace(score=max(hit.score, later.score)))
                ids.add(successor.id)
        if hit.observation.id not in ids:
            result.append(hit._replace(successor=successor))
            ids.add(hit.observation.id)
    return result


class _Text(NamedTuple):
    """The text of a decision, as it is stored."""

    id: str
    created_at: datetime | None
    content: str


def _text(observation: Observation) -> _Text:
    return _Text(observation.id, observation.created_at, searchable_text(observation))


class _Topic(NamedTuple):
    words: frozenset[str]
    change_words: frozenset[str]
    """The words of its sentences that speak of a change."""
    files: frozenset[str]


class _Topics:
    """The topics of the decisions of a project, in the order of time."""

    def __init__(self, texts: Iterable[_Text]) -> None:
        dated = [(each.created_at, each.id, each) for each in texts if each.created_at is not None]
        dated.sort(key=lambda entry: entry[:2])
        self._ids = [id_ for _, id_, _ in dated]
        self._times = [time for time, _, _ in dated]
        self._places = {id_: place for place, id_ in enumerate(self._ids)}
        self._topics = [_topic(text.content) for _, _, text in dated]
        self._counts = Counter(word for topic in self._topics for word in topic.words)
        self._weights = {
            word: math.log(1 + len(dated) / count) for word, count in self._counts.items()
        }
        self._totals = [self._weight(topic.words) for topic in self._topics]

    def successor(self, id_: str) -> str | None:
        """The last decision in the chain of those that replace this one."""
        place = self._places.get(id_)
        last = None
        while place is not None:
            place = self._newest_replacing(place)
            if place is not None:
                last = self._ids[place]
        return last

    def _newest_replacing(self, place: int) -> int | None:
        for later in range(len(self._topics) - 1, place, -1):
            if self._replaces(later, place):
                return later
        return None

    def _replaces(self, later_place: int, earlier_place: int) -> bool:
        later, earlier = self._topics[later_place], self._topics[earlier_place]
        shared = later.words & earlier.words
        if len(shared) < 2 or self._times[later_place] == self._times[earlier_place]:
            return False
        total = min(self._totals[later_place], self._totals[earlier_place])
        similarity = self._weight(shared) / max(total, 1.0)
        if similarity >= _SIMILARITY_ALONE:
            return True
        has_same_file = not later.files.isdisjoint(earlier.files)
        if has_same_file and similarity >= _SIMILARITY_IN_FILE:
            return True
        if has_same_file and later.change_words and similarity >= _SIMILARITY_OF_CHANGE_IN_FILE:
            return True
        if similarity < _SIMILARITY_OF_CHANGE:
            return False
        return any(self._counts[word] <= _PARTICULAR for word in later.change_words & shared)

    def _weight(self, words: Iterable[str]) -> float:
        return math.fsum(map(self._weights.__getitem__, words))


@lru_cache(maxsize=2_048)
def _topic(content: str) -> _Topic:
    lines = content.split("\n")
    files: frozenset[str] = frozenset()
    if lines[-1].startswith(FILES):
        files = frozenset(lines.pop().removeprefix(FILES).split(", "))
    lines = [line for line in lines if not _DONE.match(line)]
    sentences = [sentence.text for line in lines for sentence in split_sentences(line)]
    changes = [sentence for sentence in sentences if CHANGE.search(sentence)]
    return _Topic(_topic_words(sentences), _topic_words(changes), files)


@cache
def _terms_of_decisions() -> frozenset[str]:
    return frozenset(term for word in _DECISION_WORDS.split() for term in terms_of_word(word))


def _topic_words(sentences: Iterable[str]) -> frozenset[str]:
    """The words that carry meaning. Unspaced text is split into pairs of characters."""
    result: set[str] = set()
    for sentence in sentences:
        for word in words(sentence).all - _stop_words():
            result.update(term for term in terms_of_word(word) if _is_word(term))
        for run in _UNSPACED.findall(sentence):
            result.update(map("".join, pairwise(run)))
    return frozenset(result - _terms_of_decisions())


def _is_word(word: str) -> bool:
    return len(word) > 2 and not word.isnumeric() and not _UNSPACED.search(word)
