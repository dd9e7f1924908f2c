"""Later decisions that replace earlier ones.

Whether a decision is superseded is derived from the observations whenever it is asked for, and
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from recollect.language.languages import LATIN
from recollect.language.text import indexable
from recollect.memory.names import conversation_path
from recollect.memory.observe import from_passage
from recollect.memory.observe.cues import CHANGE
from recollect.memory.observe.prose import split_sentences
from recollect.memory.observe.rules import is_derived
from recollect.memory.observe.sentence_words import terms_of_word, words
from recollect.memory.results import MemoryHit, ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation
from recollect.model.search import Filter
from recollect.store.base import Store

DECISIONS = ("decision", "preference")
_MAX_DECISIONS = 200
"""How many of the newest decisions of a project are compared."""
_PARTICULAR = 3
"""A word is particular to decisions if at most so many of the project have it."""
_SIMILARITY_OF_CHANGE = 0.06
_SIMILARITY_OF_CHANGE_IN_FILE = 0.1
_SIMILARITY_IN_FILE = 0.15
_SIMILARITY_ALONE = 0.5
_UNSPACED = re.compile("[\u3400-\u9fff]{2,}|[\u30a1-\u30fa\u30fc]{3,}|[\uac00-\ud7a3]{2,}")

_STOP_WORDS = frozenset(indexable(word) for language in LATIN for word in language.stop_words)


def find_successors(store: Store, observations: Iterable[Observation]) -> dict[str, Observation]:
    """The decision that replaces each of these observations, by the id of the earlier one."""
    earlier = [each for each in observations if each.type in DECISIONS and each.created_at]
    result: dict[str, Observation] = {}
    for project in dict.fromkeys(each.project for each in earlier):
        of_project = [each for each in earlier if each.project == project]
        decisions = {each.id: each for each in _later_decisions(store, project, of_project)}
        decisions |= {each.id: each for each in of_project}
        result |= successors(list(decisions.values()), [each.id for each in of_project])
    return result


def _later_decisions(
    store: Store, project: str, earlier: Sequence[Observation]
) -> Iterator[Observation]:
    filter_ = Filter(
        hidden=True,
        kinds=(OBSERVATION,),
        projects=(project,),
        roles=DECISIONS,
        after=min(each.created_at for each in earlier if each.created_at is not None),
    )
    candidates, _ = store.newest(filter_, _MAX_DECISIONS, 0)
    passages = store.passages_by_key([candidate.key for candidate in candidates])
    for _, passage in passages.values():
        yield from_passage(passage, project)


def successors(
    decisions: Sequence[Observation], ids: Iterable[str] | None = None
) -> dict[str, Observation]:
    """For each superseded decision of a project, the newest one that replaces it, by id.

    If A is replaced by B, and B by C, then C is the successor of both. With `ids`, only the
    successors of these are looked for.
    """
    topics = _Topics(decisions)
    if ids is None:
        ids = [each.id for each in decisions]
    result: dict[str, Observation] = {}
    for id_ in ids:
        successor = topics.successor(id_)
        if successor is not None:
            result[id_] = successor
    return result


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


class _Topic(NamedTuple):
    observation: Observation
    time: float
    words: frozenset[str]
    change_words: frozenset[str]
    """The words of its sentences that speak of a change."""


class _Topics:
    """The topics of the decisions of a project."""

    def __init__(self, decisions: Iterable[Observation]) -> None:
        dated = [each for each in decisions if each.created_at and each.type in DECISIONS]
        topics = sorted(map(_topic, dated), key=lambda topic: (topic.time, topic.observation.id))
        self._topics = topics
        self._places = {topic.observation.id: place for place, topic in enumerate(topics)}
        self._counts = Counter(word for topic in topics for word in topic.words)
        self._weights = {
            word: math.log(1 + len(topics) / count) for word, count in self._counts.items()
        }

    def successor(self, id_: str) -> Observation | None:
        """The last decision in the chain of those that replace this one."""
        place = self._places.get(id_)
        last = None
        while place is not None:
            place = self._newest_replacing(place)
            if place is not None:
                last = self._topics[place].observation
        return last

    def _newest_replacing(self, place: int) -> int | None:
        for later in range(len(self._topics) - 1, place, -1):
            if self._replaces(self._topics[later], self._topics[place]):
                return later
        return None

    def _replaces(self, later: _Topic, earlier: _Topic) -> bool:
        shared = later.words & earlier.words
        if len(shared) < 2 or later.time <= earlier.time:
            return False
        smaller = min((later.words, earlier.words), key=len)
        similarity = self._weight(shared) / max(self._weight(smaller), 1.0)
        if similarity >= _SIMILARITY_ALONE:
            return True
        files = set(later.observation.files_modified) & set(earlier.observation.files_modified)
        if files and similarity >= _SIMILARITY_IN_FILE:
            return True
        if files and later.change_words and similarity >= _SIMILARITY_OF_CHANGE_IN_FILE:
            return True
        particular = [w for w in later.change_words & shared if self._counts[w] <= _PARTICULAR]
        return bool(particular) and similarity >= _SIMILARITY_OF_CHANGE

    def _weight(self, words: Iterable[str]) -> float:
        return math.fsum(map(self._weights.__getitem__, words))


@lru_cache(maxsize=2_048)
def _topic(observation: Observation) -> _Topic:
    texts = [observation.title, observation.subtitle, *observation.narrative.split("\n")]
    texts += [fact for fact in observation.facts if ":" in fact or not is_derived(fact)]
    sentences = [sentence.text for text in texts for sentence in split_sentences(text)]
    changes = [sentence for sentence in sentences if CHANGE.search(sentence)]
    assert observation.created_at is not None
    return _Topic(
        observation,
        observation.created_at.timestamp(),
        _topic_words(sentences),
        _topic_words(changes),
    )


def _topic_words(sentences: Iterable[str]) -> frozenset[str]:
    """The words that carry meaning. Unspaced text is split into pairs of characters."""
    result: set[str] = set()
    for sentence in sentences:
        for word in words(sentence).all - _STOP_WORDS:
            result.update(term for term in terms_of_word(word) if _is_word(term))
        for run in _UNSPACED.findall(sentence):
            result.update(map("".join, pairwise(run)))
    return frozenset(result)


def _is_word(word: str) -> bool:
    return len(word) > 2 and not word.isnumeric() and not _UNSPACED.search(word)
