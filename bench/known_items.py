"""Queries with known answers, made from the conversations of a library.

Known items are what people remember of a message: two adjacent words, two words anywhere in it, a
part of a sentence, an identifier, a title, with one typo, or with the last word unfinished. The
right message should come first. The other way round, words that no message contains should give no
hits.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import recollect
from recollect.language.languages import ENGLISH
from recollect.language.queries.intent import identifiers
from recollect.language.text import tokens
from recollect.language.words import neighbours, stem
from recollect.model.search import SearchOptions

SAMPLE = 200
MOST_MESSAGES = 3  # an item in more messages is not a known item
_RUN = 5  # words of a part of a sentence
_ATTEMPTS = 20 * SAMPLE
_WORD = re.compile(r"[^\W\d_]{4,}")
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]

# Words of fields that personal conversations rarely touch.
_OTHER_FIELDS = """
    mitochondrion ribosome chloroplast polymerase eigenvalue homomorphism manifold cohomology
    tort estoppel usufruct escheat subpoena habeas neutrino boson quasar pulsar nebula redshift
    isthmus archipelago moraine stalactite feldspar gneiss basalt obsidian gerund morpheme phoneme
    syntagm ablative sonnet stanza trochee dactyl spondee caesura halyard gunwale bowsprit capstan
    mizzen keelson catenary stator rotor solenoid capacitor thyristor varistor titration molarity
    anion cation alkene ketone aldehyde thorax carapace cephalopod arthropod lichen xylem phloem
    stamen pistil chasuble thurible narthex apse clerestory ziggurat trireme phalanx hoplite legate
    praetor lictor fief vassal serf seigneur arbitrage debenture escrow amortization subordinated
"""
OTHER_FIELDS = _OTHER_FIELDS.split()


class Item(NamedTuple):
    query: str
    messages: frozenset[str]
    """The right messages; empty if nothing should be found."""
    typing: bool = False


class Corpus:
    """The messages of a library and what occurs in only a few of them."""

    def __init__(self, conversations: Sequence[dict[str, Any]], seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._conversations = conversations
        self._pairs: dict[tuple[str, str], set[str]] = {}
        self._identifiers: dict[tuple[str, ...], tuple[str, set[str]]] = {}
        self._words: dict[str, set[str]] = {}
        """The words of each message."""
        self._frequencies: Counter[str] = Counter()
        for conversation in conversations:
            for message in conversation["messages"]:
                self._read(message["id"], message["content"])

    def _read(self, id_: str, content: str) -> None:
        words = tokens(content)
        self._words[id_] = set(words)
        self._frequencies.update(set(words))
        for first, second in pairwise(words):
            if first != second and _is_content(first) and _is_content(second):
                self._pairs.setdefault((first, second), set()).add(id_)
        # Emphasis is no part of an identifier: nobody types `**3D**`.
        for word in set(identifiers(content.replace("*", " "))):
            if tokens(word):
                self._identifiers.setdefault(tuple(tokens(word)), (word, set()))[1].add(id_)

    def parts(self) -> dict[str, list[Item]]:
        """The queries of each part of the benchmark."""
        pairs = self._known_pairs()
        return {
            "adjacent words": [Item(" ".join(pair), ids) for pair, ids in pairs],
            "identifiers": self._known_identifiers(),
            "titles": self._titles(),
            "one typo": [item for pair in pairs for item in self._with_typo(*pair)],
            "unfinished word": [item for pair in pairs for item in self._unfinished(*pair)],
            "made-up words": [Item(self._made_up(), frozenset()) for _ in range(SAMPLE)],
            "other fields": self._other_fields(),
            # The last ones, so that the samples of the others stay what they were.
            "scattered words": self._scattered(),
            "part of a sentence": self._runs(),
        }

    def _sample(self, values: Sequence[Any]) -> list[Any]:
        return self._random.sample(values, min(SAMPLE, len(values)))

    def _known_pairs(self) -> list[tuple[tuple[str, str], frozenset[str]]]:
        pairs = [
            (pair, frozenset(ids))
            for pair, ids in sorted(self._pairs.items())
            if len(ids) <= MOST_MESSAGES
        ]
        return self._sample(pairs)

    def _scattered(self) -> list[Item]:
        """Two words of one message, in any order and at any distance."""
        contents = sorted(self._words)
        items: list[Item] = []
        for id_ in self._random.choices(contents, k=_ATTEMPTS):
            words = sorted(filter(_is_content, self._words[id_]))
            if len(words) < 2 or len(items) == SAMPLE:
                continue
            pair = set(self._random.sample(words, 2))
            ids = frozenset(other for other in contents if pair <= self._words[other])
            if len(ids) <= MOST_MESSAGES:
                items.append(Item(" ".join(sorted(pair)), ids))
        return items

    def _runs(self) -> list[Item]:
        """Adjacent words as they were written, with function words and punctuation."""
        contents = {m["id"]: m["content"] for c in self._conversations for m in c["messages"]}
        texts = {id_: f" {' '.join(tokens(content))} " for id_, content in contents.items()}
        items: list[Item] = []
        for id_ in self._random.choices(sorted(contents), k=_ATTEMPTS):
            words = contents[id_].split()
            if len(words) < _RUN or len(items) == SAMPLE:
                continue
            start = self._random.randrange(len(words) - _RUN + 1)
            run = " ".join(words[start : start + _RUN])
            if len(tokens(run)) < _RUN or "?" in run:  # a question is not to be found itself
                continue
            text = f" {' '.join(tokens(run))} "
            ids = frozenset(other for other, each in texts.items() if text in each)
            if len(ids) <= MOST_MESSAGES:
                items.append(Item(run, ids))
        return items

    def _known_identifiers(self) -> list[Item]:
        words = [
            word
            for _, (word, ids) in sorted(self._identifiers.items())
            if len(ids) <= MOST_MESSAGES
        ]
        items = [Item(word, self._messages_with(word)) for word in self._sample(words)]
        return [item for item in items if len(item.messages) <= MOST_MESSAGES]

    def _messages_with(self, identifier: str) -> frozenset[str]:
        """The messages that contain an identifier, also within another one.

        `www.site.org` also contains `site.org`.
        """
        pattern = re.compile(rf"(?<!\w){re.escape(identifier.lower())}(?!\w)")
        return frozenset(
            message["id"]
            for conversation in self._conversations
            for message in conversation["messages"]
            if identifier.lower() in message["content"].lower()
            and pattern.search(message["content"].lower())
        )

    def _titles(self) -> list[Item]:
        titles = Counter(c.get("title", "") for c in self._conversations)
        items = [
            Item(c["title"], frozenset(m["id"] for m in c["messages"]))
            for c in self._conversations
            if c.get("title") and titles[c["title"]] == 1
        ]
        return self._sample(items)

    def _with_typo(self, pair: tuple[str, str], ids: frozenset[str]) -> Iterator[Item]:
        """The pair with a letter wrong in one of its words, which must be frequent."""
        for number, word in enumerate(pair):
            if self._frequencies[word] < 3 or len(word) < 5:
                continue
            typos = sorted(w for w in neighbours(word) if not self._frequencies[w])
            wrong = list(pair)
            wrong[number] = self._random.choice(typos)
            yield Item(" ".join(wrong), ids)
            return

    def _unfinished(self, pair: tuple[str, str], ids: frozenset[str]) -> Iterator[Item]:
        """The pair without its last letters, as few letters as are needed to know the messages."""
        first, second = pair
        for end in range(3, len(second)):
            others = {
                id_
                for (word, follower), matches in self._pairs.items()
                if word == first and follower.startswith(second[:end])
                for id_ in matches
            }
            if others == ids:
                yield Item(f"{first} {second[:end]}", ids, typing=True)
                return

    def _made_up(self) -> str:
        while True:
            words = [
                "".join(self._random.choices(_SYLLABLES, k=self._random.randint(2, 4)))
                for _ in range(self._random.randint(1, 3))
            ]
            if not any(self._frequencies[word] for word in words):
                return " ".join(words)

    def _other_fields(self) -> list[Item]:
        stems = {stem(word) for word in self._frequencies}
        absent = [word for word in OTHER_FIELDS if stem(word) not in stems]
        return [
            Item(" ".join(self._random.sample(absent, self._random.randint(1, 3))), frozenset())
            for _ in range(SAMPLE)
        ]


def _is_content(word: str) -> bool:
    return bool(_WORD.fullmatch(word)) and word not in ENGLISH.stop_words


def share_right(
    library: recollect.Library,
    items: Sequence[Item],
    report: Callable[[Item, list[str]], None] | None = None,
) -> float:
    """The share of queries with a right message first, or without hits if nothing is right."""
    right = 0
    for item in items:
        options = SearchOptions(limit=3, typing=item.typing)
        ids = [hit.message_id for hit in library.search(item.query, options=options).hits]
        is_right = not ids
        if item.messages:
            is_right = bool(ids) and ids[0] in item.messages
        right += is_right
        if not is_right and report is not None:
            report(item, ids)
    return right / max(len(items), 1)
