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
from recollect.memory.observe.sentences import split_sentences
from recollect.memory.observe.storing import CONCEPTS, FILES, searchable_text
from recollect.memory.observe.words import terms, words
from recollect.memory.results import MemoryHit, ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation
from recollect.model.search import Filter
from recollect.store.base import Store

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
def stop_words() -> frozenset[str]:
    return frozenset(indexable(word) for language in LATIN for word in language.stop_words)


def find_successors(store: Store, observations: Iterable[Observation]) -> dict[str, Observation]:
    """The decision that replaces each of these observations, by the id of the earlier one.

    If A is replaced by B, and B by C, then C is the successor of both.
    """
    by_project: dict[str, dict[str, Observation]] = {}
    for each in observations:
        if each.type in DECISIONS and each.created_at is not None:
            by_project.setdefault(each.project, {})[each.id] = each
    result: dict[str, Observation] = {}
    for project, earlier in by_project.items():
        filter_ = Filter(
            hidden=True,
            kinds=(OBSERVATION,),
            projects=(project,),
            roles=DECISIONS,
            after=min(each.created_at for each in earlier.values() if each.created_at is not None),
        )
        later = {each.id: each for each in store.recent(None, filter_, _MAX_DECISIONS)}
        texts = {each.id: (each.created_at, searchable_text(each)) for each in earlier.values()} | {
            each.id: (each.created_at, each.content) for each in later.values()
        }
        ids = successor_ids(texts, earlier)
        keys = [later[id_].key for id_ in set(ids.values()) if id_ in later]
        by_id = dict(earlier)
        for _, passage in store.passages_by_key(keys).values() if keys else ():
            by_id[passage.id] = from_passage(passage, project)
        result |= {id_: by_id[successor] for id_, successor in ids.items() if successor in by_id}
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


class Topic(NamedTuple):
    """What a decision is about."""

    words: frozenset[str]
    change_words: frozenset[str]
    """The words of its sentences that speak of a change."""
    files: frozenset[str]


def successor_ids(
    texts: Mapping[str, tuple[datetime | None, str]], ids: Iterable[str]
) -> dict[str, str]:
    """The last decision in the chain of those that replace each of these decisions.

    `texts` are the times and the texts, as they are stored, of decisions of one project.
    """
    dated = sorted((time, id_) for id_, (time, _) in texts.items() if time is not None)
    topics = [_topic(texts[id_][1]) for _, id_ in dated]
    counts = Counter(word for topic in topics for word in topic.words)
    weights = {word: math.log(1 + len(dated) / count) for word, count in counts.items()}

    def weight(words: Iterable[str]) -> float:
        return math.fsum(map(weights.__getitem__, words))

    totals = [weight(topic.words) for topic in topics]

    def replaces(later_place: int, earlier_place: int) -> bool:
        later, earlier = topics[later_place], topics[earlier_place]
        shared = later.words & earlier.words
        if len(shared) < 2 or dated[later_place][0] == dated[earlier_place][0]:
            return False
        similarity = weight(shared) / max(min(totals[later_place], totals[earlier_place]), 1.0)
        needed = _SIMILARITY_ALONE
        if not later.files.isdisjoint(earlier.files):
            needed = _SIMILARITY_OF_CHANGE_IN_FILE if later.change_words else _SIMILARITY_IN_FILE
        if similarity >= needed:
            return True
        particular = (counts[word] <= _PARTICULAR for word in later.change_words & shared)
        return similarity >= _SIMILARITY_OF_CHANGE and any(particular)

    places = {id_: place for place, (_, id_) in enumerate(dated)}
    result: dict[str, str] = {}
    for id_ in ids:
        place = places.get(id_)
        while place is not None:
            following = range(len(dated) - 1, place, -1)
            place = next((later for later in following if replaces(later, place)), None)
            if place is not None:
                result[id_] = dated[place][1]
    return result


@lru_cache(maxsize=2_048)
def _topic(content: str) -> Topic:
    lines = content.split("\n")
    files: frozenset[str] = frozenset()
    if lines[-1].startswith(FILES):
        files = frozenset(lines.pop().removeprefix(FILES).split(", "))
    lines = [line for line in lines if not _DONE.match(line)]
    sentences = [sentence.text for line in lines for sentence in split_sentences(line)]
    changes = [sentence for sentence in sentences if CHANGE.is_in(sentence)]
    return Topic(topic_words(sentences), topic_words(changes), files)


@cache
def terms_of_decisions() -> frozenset[str]:
    return frozenset(term for word in _DECISION_WORDS.split() for term in terms(word))


def topic_words(sentences: Iterable[str]) -> frozenset[str]:
    """The words that carry meaning. Unspaced text is split into pairs of characters."""
    result: set[str] = set()
    for sentence in sentences:
        for word in words(sentence).all - stop_words():
            result.update(term for term in terms(word) if is_word(term))
        for run in _UNSPACED.findall(sentence):
            result.update(map("".join, pairwise(run)))
    return frozenset(result - terms_of_decisions())


def is_word(word: str) -> bool:
    return len(word) > 2 and not word.isnumeric() and not _UNSPACED.search(word)
