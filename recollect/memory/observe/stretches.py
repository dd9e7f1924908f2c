"""Stretches: a conversation cut into parts that can be observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from recollect.memory.observe import cues
from recollect.memory.observe.exchanges import (
    Exchange,
    is_from_person,
    person_text,
)
from recollect.memory.observe.sentences import Sentence, is_prose, prose_sentences, split_pasted
from recollect.memory.observe.work import Work, collect_work
from recollect.model.documents import Passage
from recollect.models.stopping import Stop, never_stop, require_running

_MAX_PART = 80  # passages after which long work is split
_MIN_PART = 4
_MAX_OWN_LINES = 25
_MAX_OWN_LENGTH = 4_000  # characters: the middle of a longer message is probably pasted
_PASTE_MARGIN = 1_000
_MAX_SENTENCES = 400  # per message


@dataclass(slots=True)
class Stretch:
    """An exchange, or a part of a long one."""

    passages: tuple[Passage, ...]
    request: str
    work: Work
    person_sentences: list[Sentence] = field(default_factory=list)
    model_sentences: list[Sentence] = field(default_factory=list)
    closing: int = 0
    """Where in `model_sentences` the last message begins."""
    ranking: list[tuple[float, int, str]] = field(default_factory=list)
    """The quotable model sentences, best first: the negated score, the place and the text."""
    pasted: str = ""
    """What the person pasted: the output of programs."""
    reply: str = ""
    """The last of the person's messages that accept or choose what the model offered."""
    offer: int = 0
    """Where in `model_sentences` the part begins that follows the first reply."""
    is_everyday: bool = False
    is_among_people: bool = False
    """Whether people talk to each other without a model."""
    speakers: list[str] = field(default_factory=list)
    """The author of each of the person's sentences."""

    @property
    def is_choice(self) -> bool:
        """Whether the person chose among what the model offered, rather than asked for a cause."""
        is_answer = bool(self.reply) and not cues.is_pleasantry(self.reply)
        return is_answer and not cues.ASKS_CAUSE.is_in(self.request)

    @property
    def sentences(self) -> list[str]:
        return [sentence.text for sentence in (*self.person_sentences, *self.model_sentences)]

    def attribute(self, text: str, number: int) -> str:
        """The text of a person's sentence, with the name of the speaker among people."""
        speaker = self.speakers[number]
        if self.is_among_people and speaker:
            return f"{speaker}: {text}"
        return text


def split_stretches(
    exchanges: Sequence[Exchange], root: str, stop: Stop = never_stop
) -> list[Stretch]:
    """The stretches of a conversation in a project with this root folder."""
    stretches: list[Stretch] = []
    for exchange in join_replies(exchanges, root):
        require_running(stop)
        stretches += stretches_of(exchange, root)
    return stretches


def join_replies(exchanges: Sequence[Exchange], root: str) -> list[Exchange]:
    """The exchanges, each together with the replies to what the model offered in it."""
    joined: list[Exchange] = []
    for exchange in exchanges:
        if joined and is_reply_to(joined[-1], exchange, root):
            passages = (*joined[-1].passages, *exchange.passages)
            joined[-1] = replace(joined[-1], passages=passages)
        else:
            joined.append(exchange)
    return joined


def is_reply_to(previous: Exchange, exchange: Exchange, root: str) -> bool:
    if not previous.quotable or not exchange.quotable or len(previous.passages) > _MAX_PART:
        return False
    request, offer = previous.quotable[0], previous.quotable[-1]
    message = exchange.quotable[0]
    if not is_from_person(request) or not is_from_person(message):
        return False
    if offer.role != "assistant" or offer.type != "message":
        return False
    text = person_text(message)
    if not cues.is_reply(text, person_text(request), offer.content):
        return False
    # After something was done, only a bare "yes, continue" goes on with it.
    is_bare = cues.is_trivial(text)
    return is_bare or not collect_work(previous.quotable, root).changes


def stretches_of(exchange: Exchange, root: str) -> Iterator[Stretch]:
    for passages in split_work(exchange.quotable):
        stretch = Stretch(passages, "", collect_work(passages, root))
        stretch.is_among_people = are_people(passages)
        for passage in passages:
            if is_from_person(passage):
                add_person_message(stretch, passage)
            elif passage.type == "message" and passage.role == "assistant":
                stretch.closing = len(stretch.model_sentences)
                stretch.model_sentences += prose_sentences(passage.content)[:_MAX_SENTENCES]
        if stretch.sentences or stretch.work.changes or stretch.work.commits:
            yield stretch


def add_person_message(stretch: Stretch, passage: Passage) -> None:
    text = person_text(passage)
    if not stretch.request:
        stretch.request = text
    elif not stretch.is_among_people:
        stretch.offer = stretch.offer or len(stretch.model_sentences)
        stretch.reply = text
    own, pasted = split_pasted(text)
    stretch.pasted += pasted
    sentences = prose_sentences(without_middle(own))[:_MAX_SENTENCES]
    stretch.person_sentences += sentences
    stretch.speakers += [passage.author or ""] * len(sentences)


def are_people(passages: Sequence[Passage]) -> bool:
    authors = {passage.author for passage in passages if is_from_person(passage)}
    if not authors or None in authors:
        return False
    return not any(passage.role == "assistant" for passage in passages)


def without_middle(text: str) -> str:
    """The person's own words before and after a long pasted text."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > _MAX_OWN_LINES and len(text) > _MAX_OWN_LENGTH // 2:
        closing = lines[-3:] if all(map(is_prose, lines[-3:])) else []
        return "\n\n".join([*takewhile(is_prose, lines[:5]), *closing])
    if len(text) > _MAX_OWN_LENGTH:
        return f"{text[:_PASTE_MARGIN]}\n\n{text[-_PASTE_MARGIN:]}"
    return text


def split_work(passages: tuple[Passage, ...]) -> Iterator[tuple[Passage, ...]]:
    """Long work in parts. A part ends with a commit, or when it has grown too long."""
    start = 0
    for end in range(1, len(passages)):
        if passages[end - 1].type != "tool_result" or len(passages) - end < _MIN_PART:
            continue
        is_long = end - start >= _MAX_PART and passages[end].type == "message"
        if is_long or (end - start >= _MIN_PART and is_commit(passages[end - 2 : end])):
            yield passages[start:end]
            start = end
    if passages[start:]:
        yield passages[start:]


def is_commit(call_and_result: Sequence[Passage]) -> bool:
    if "commit" not in call_and_result[0].content:
        return False
    return bool(collect_work(call_and_result).commits)
