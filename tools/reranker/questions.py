"""Rule-made queries: questions, requests and keywords that a message answers.

The questions ask about statements in the first person ("I bought a guitar for my brother" answers
"What did Ana buy for her brother?"). They come from patterns, not from a parser, so a few of them
are clumsy. That does not hurt: users write clumsy questions as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.reranker.words import content_words

_IRREGULAR = """
bought buy|went go|saw see|got get|made make|took take|had have|found find|met meet|ate eat
gave give|told tell|said say|thought think|felt feel|left leave|kept keep|heard hear|read read
wrote write|started start|lost lose|won win|spent spend|built build|sold sell|paid pay|ran run
came come|began begin|broke break|brought bring|caught catch|chose choose|drove drive|grew grow
knew know|learned learn|put put|sent send|set set|slept sleep|spoke speak|taught teach|wore wear
drank drink|flew fly|forgot forget|hit hit|held hold|rode ride|sang sing|stood stand|swam swim
threw throw|understood understand|became become|did do
"""
BASES = dict(pair.split() for pair in re.split(r"[|\n]", _IRREGULAR.strip()))

_PAST = re.compile(
    r"\b(?:I|[Ww]e) (?:(?:just|recently|finally|also|actually|already|even|only) )?"
    rf"((?:{'|'.join(BASES)})|[a-z]{{2,}}ed) ([^.?!;:()]{{8,110}})"
)
_MINE = re.compile(r"\b[Mm]y ((?:[a-z]+ ){0,2}[a-z]{3,}) (?:is|was|are|were) ([^.?!;:()]{3,90})")
_PLAN = re.compile(
    r"\bI(?:'m| am|'ll be) (?:going to|planning to|planning on|hoping to|thinking of|"
    r"thinking about|looking to|trying to) ([^.?!;:()]{8,110})"
)
_LIKING = re.compile(
    r"\bI (?:really |absolutely |also |just |still |personally |would |usually |always )?"
    r"(?:love|like|enjoy|prefer|hate|dislike|adore|can't stand|don't like"
    r"|am a (?:huge |big )?fan of) ([^.?!;:()]{4,100})"
)
_HAVING = re.compile(
    r"\bI(?: have|'ve got| own| got) ((?:a|an|two|three|four|\d+) [^.?!;:()]{4,80})"
)
_PLACE = re.compile(
    r"\bI (live|work|worked|lived|studied|grew up|was born|moved|am based)"
    r" (in|at|for|to|as|near) ([^.?!;:(),]{3,60})"
)
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|this (?:morning|week|month|year|weekend)|last \w+|next \w+"
    r"|\w+ (?:days?|weeks?|months?|years?) ago|on (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
    r"|in (?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|\d{4}|the (?:\d+s|summer|winter|spring|fall))|when I was \w+)\b"
)
_WHERE = re.compile(r" (?:in|at|to|from) (?:[A-Z]|the )")
_VAGUE = frozenset(
    """
think say feel know guess use want need suppose have get do mean try kind
""".split()
)
_NUMBER = re.compile(
    r"\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten|dozens of|several) ([a-z]{3,}s)\b"
)
_SPLIT = re.compile(
    r" (?:for|from|with|in|at|to|on|about|because|and|but|so|when|where|which|that) "
)
_PEOPLE = frozenset(
    """
mother father mom dad sister brother wife husband son daughter friend boss uncle aunt cousin
grandmother grandfather girlfriend boyfriend partner roommate teacher doctor favorite
""".split()
)


@dataclass(frozen=True, slots=True)
class Person:
    """How a question refers to the author of a message: by name, or as the one who asks."""

    name: str

    @property
    def is_self(self) -> bool:
        return self.name == "user"

    def did(self) -> str:
        if self.is_self:
            return "did I"
        return f"did {self.name}"

    def does(self) -> str:
        if self.is_self:
            return "do I"
        return f"does {self.name}"

    def is_(self) -> str:
        if self.is_self:
            return "am I"
        return f"is {self.name}"

    def whose(self) -> str:
        if self.is_self:
            return "my"
        return f"{self.name}'s"


def base_form(verb: str) -> str:
    """The infinitive of a verb in the past tense, by spelling."""
    if verb in BASES:
        return BASES[verb]
    stem = verb.removesuffix("ed")
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "ls":
        return stem[:-1]
    if re.search(r"(?:[aeiou][bcdgkmprstvz]|[csvz]|[lr]g|dg|u)$", stem) and len(stem) < 7:
        return stem + "e"
    return stem


def _third_person(text: str, person: Person, rng: random.Random) -> str:
    """Replace the pronouns of the author, unless the author asks."""
    if person.is_self:
        return text
    pronoun = rng.choice(["his", "her", "their"])
    text = re.sub(r"\bmy\b", pronoun, text)
    return re.sub(
        r"\b(?:I|me|myself|we|us|our)\b", lambda m: "they" if m[0] in "Iwe" else "them", text
    )


def questions(text: str, person: Person, rng: random.Random) -> list[str]:
    """Questions that the statements in a text answer."""
    results = []
    for make in (_about_past, _about_possessions, _about_plans, _about_places):
        results += [" ".join(q.split()) for q in make(text, person, rng)]
    return [_third_person(q, person, rng).rstrip(" ,-") + "?" for q in results]


def _about_past(text: str, person: Person, rng: random.Random) -> Iterator[str]:
    for match in _PAST.finditer(text):
        verb, rest = base_form(match[1]), match[2].strip()
        if verb in _VAGUE:
            continue
        time = _TIME.search(rest)
        parts = _SPLIT.split(rest, maxsplit=1)
        if time:
            event = (rest[: time.start()] + rest[time.end() :]).strip(" ,")
            yield f"When {person.did()} {verb} {_shorten(event, 8)}"
        number = _NUMBER.search(rest)
        if number:
            yield f"How many {number[1]} {person.did()} {verb}"
        if " because " in rest:
            yield f"Why {person.did()} {verb} {_shorten(rest.split(' because ')[0], 8)}"
        if len(parts) == 2 and len(parts[0].split()) <= 7:
            tail = _shorten(rest[len(parts[0]) :].strip(), 7)
            yield f"What {person.did()} {verb} {tail}"
            if _WHERE.search(rest):
                yield f"Where {person.did()} {verb} {parts[0]}"
        elif not time:
            yield f"What {person.did()} {verb} {_shorten(rest, rng.choice([2, 4, 6]))}"


def _about_possessions(text: str, person: Person, rng: random.Random) -> Iterator[str]:
    for match in _MINE.finditer(text):
        word = "What"
        if match[1].split()[-1] in _PEOPLE:
            word = "Who"
        yield f"{word} is {person.whose()} {match[1]}"
        yield f"What about {person.whose()} {match[1]}"
    for match in _HAVING.finditer(text):
        number = _NUMBER.search(match[1])
        if number:
            yield f"How many {number[1]} {person.does()} have"
        else:
            yield f"What kind of {_shorten(match[1].split(' ', 1)[1], 3)} {person.does()} have"


def _about_plans(text: str, person: Person, rng: random.Random) -> Iterator[str]:
    for match in _PLAN.finditer(text):
        words = match[1].split()
        yield f"What {person.is_()} planning to do {' '.join(words[-rng.randint(2, 4) :])}"
        yield f"What are {person.whose()} plans for {_shorten(' '.join(words[1:]), 4)}"


def _about_places(text: str, person: Person, rng: random.Random) -> Iterator[str]:
    for match in _PLACE.finditer(text):
        verb = {"worked": "work", "lived": "live", "studied": "study", "moved": "move"}.get(
            match[1], match[1]
        )
        if verb == "grew up":
            verb = "grow up"
        if verb == "work" and match[2] == "as":
            yield f"What {person.does()} do for a living"
            yield f"What is {person.whose()} job"
        elif verb in ("was born", "am based"):
            yield f"Where {person.is_()} from"
        else:
            yield f"Where {person.does()} {verb}"


def _shorten(text: str, count: int) -> str:
    return " ".join(text.split()[:count]).strip(" ,-")


# -- requests ------------------------------------------------------------------

_REQUESTS = (
    "Can you recommend {thing} for {whom}?",
    "Suggest {thing} that {who} would like.",
    "What {thing} should {who} try next?",
    "Any ideas for {thing} this weekend?",
    "I need some advice on {thing}.",
    "How should {who} choose {thing}?",
    "Help {whom} pick {thing}.",
    "Could you plan something with {thing} for {whom}?",
    "recommend {thing}",
    "What would be a good {thing} for {whom}?",
)


def states_preference(text: str) -> bool:
    return _LIKING.search(text) is not None


def requests(text: str, topic: str, person: Person, rng: random.Random) -> list[str]:
    """Requests that a stated preference should guide. They name the topic, not the preference."""
    if not states_preference(text) or topic.casefold() not in text.casefold():
        return []
    who, whom = person.name, person.name
    if person.is_self:
        who, whom = "I", "me"
    return [rng.choice(_REQUESTS).format(thing=topic, who=who, whom=whom)]


# -- keywords ------------------------------------------------------------------


def keywords(text: str, rng: random.Random) -> str:
    """Two to four words of a text, as somebody would type them; empty if it has too few."""
    words = content_words(text)
    count = rng.randint(2, 4)
    if len(words) < count + 2:
        return ""
    if rng.random() < 0.5:
        start = rng.randrange(len(words) - count)
        return " ".join(words[start : start + count]).casefold()
    return " ".join(rng.sample(words, count)).casefold()
