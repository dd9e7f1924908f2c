"""The texts of an observation without sentences that another of its texts contains.

The title, the subtitle, the narrative and the facts are taken from the same messages, so they often
say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from recollect.language.text import tokens
from recollect.memory.formats import one_line
from recollect.model.observations import Observation

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


class Texts(NamedTuple):
    subtitle: str
    narrative: str
    facts: tuple[str, ...]


def without_repetitions(observation: Observation) -> Texts:
    """Each sentence once. A sentence stays where it is longest; the title always stays."""
    title = _words(observation.title)
    facts = [one_line(fact) for fact in observation.facts]
    fact_words = [_words(fact) for fact in facts]
    narrative = _narrative(observation.narrative, [title, *fact_words])
    narrative_words = [_words(sentence) for sentence in _sentences(narrative)]
    subtitle = one_line(observation.subtitle)
    if _is_contained(_words(subtitle), [title, *narrative_words, *fact_words]):
        subtitle = ""
    others = [title, _words(subtitle), *narrative_words]
    return Texts(subtitle, narrative, tuple(_distinct_facts(facts, others)))


def is_repetition(text: str, others: Iterable[str]) -> bool:
    """Whether another text contains all of this one, apart from case and punctuation."""
    return _is_contained(_words(text), map(_words, others))


def _narrative(narrative: str, others: Sequence[str]) -> str:
    """The lines of a narrative, without sentences that others or earlier sentences contain."""
    texts = list(others)
    lines = []
    for line in narrative.split("\n"):
        all_sentences = _sentences(line)
        sentences = []
        for sentence in all_sentences:
            words = _words(sentence)
            if not _is_contained(words, texts):
                sentences.append(sentence)
                texts.append(words)
        if len(sentences) == len(all_sentences):
            lines.append(line)
        elif sentences:
            lines.append(" ".join(sentences))
    return "\n".join(lines).strip("\n")


def _distinct_facts(facts: Sequence[str], others: Sequence[str]) -> Iterable[str]:
    """The facts that neither the others, nor earlier facts, nor longer facts contain."""
    words = [_words(fact) for fact in facts]
    for number, fact in enumerate(facts):
        longer = [each for each in words[number + 1 :] if each != words[number]]
        if not _is_contained(words[number], [*others, *words[:number], *longer]):
            yield fact


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def _words(text: str) -> str:
    """The words of a text, for comparisons. Case, punctuation and ellipses do not count."""
    return f" {' '.join(tokens(text))} "


def _is_contained(words: str, texts: Iterable[str]) -> bool:
    """Whether a text contains these words. Texts without words are not compared."""
    return bool(words.strip()) and any(words in text for text in texts)
