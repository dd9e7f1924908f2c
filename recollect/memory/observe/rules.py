"""Observations by rules: what was done, from tool calls; what was said, in its own sentences.

Nothing is invented. A fact is part of a sentence of the source, or has one of the forms that
`is_derived` recognizes. The same document always gives the same observations.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable, Iterator

from recollect.memory.observe.drafts import (
    Draft,
    draft_decision,
    draft_talk,
    draft_work,
    has_work,
)
from recollect.memory.observe.exchanges import ConversationText, conversation_text, split_exchanges
from recollect.memory.observe.salience import Salience, concepts
from recollect.memory.observe.sentences import Sentence
from recollect.memory.observe.stretches import Stretch, split_stretches
from recollect.model.documents import Document
from recollect.model.observations import Observation
from recollect.model.projects import is_folder
from recollect.models.stopping import Stop, never_stop, require_running

MAKER = "rules-4"
_MAX_CONCEPT_CHARACTERS = 4_000  # of the person's sentences
_SENTENCE_END = 3
_FORMS = re.compile(
    r"(?:Created|Modified|Deleted) \S.*?(?: \(\+\d+ −\d+\))?|Modified \d+ files: .+"
    r"|Ran `.+?`(?:: (?:passed|failed)(?:, then (?:passed|failed))*)?"
    r"|Committed: .+|Renamed .+ to .+|Searched the web for: .+|Delegated: .+|Listed: .+|Read .+"
    r"|(?P<speaker>[^:\n]{1,80}): (?P<text>.+)",
    re.DOTALL,
)


def observe(document: Document, stop: Stop = never_stop) -> list[Observation]:
    """What is worth remembering of a conversation, in its order. Raises IndexingStopped."""
    exchanges = split_exchanges(document)
    if not exchanges:
        return []
    text = conversation_text(document, exchanges)
    stretches = split_stretches(exchanges, document.project, stop)
    if not is_coding(document):
        for stretch in stretches:
            stretch.is_everyday = True
    salience = Salience(stretch.sentences for stretch in stretches)
    observations: list[Observation] = []
    for stretch in stretches:
        require_running(stop)
        for number, draft in enumerate(drafts(stretch, salience)):
            observations.append(observation(draft, number, stretch, document, text, salience))
    return observations


def is_coding(document: Document) -> bool:
    """Whether a conversation is about work in a project, as opposed to everyday life."""
    if is_folder(document.project):
        return True
    return any(passage.type == "tool_call" for passage in document.passages)


def drafts(stretch: Stretch, salience: Salience) -> Iterator[Draft]:
    if has_work(stretch):
        draft = draft_work(stretch, salience)
        if draft is not None:
            yield draft
            yield from draft_decision(stretch, draft)
        return
    draft = draft_talk(stretch, salience)
    if draft is not None:
        yield draft


def observation(
    draft: Draft,
    number: int,
    stretch: Stretch,
    document: Document,
    text: ConversationText,
    salience: Salience,
) -> Observation:
    passages = tuple(passage.id for passage in stretch.passages)
    conversation = document.id or document.source_id
    texts = [(draft.title, 1.0)]
    texts += [(text, 1.0) for text in first_texts(stretch.person_sentences)]
    texts += [(text, 0.6) for text in (*draft.facts, *draft.narrative, draft.subtitle)]
    times = [passage.created_at for passage in stretch.passages if passage.created_at]
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    if draft.has_files:
        files_read = tuple(stretch.work.files_read[:50])
        files_modified = stretch.work.files_modified[:50]
    return Observation(
        id=observation_id(conversation, passages[0], number),
        type=draft.type,
        title=draft.title,
        conversation=conversation,
        passages=passages,
        subtitle=draft.subtitle,
        narrative="\n".join(draft.narrative),
        facts=tuple(draft.facts),
        concepts=concepts(texts, salience),
        project=document.project,
        created_at=next(iter(times), document.created_at),
        lines=text.span(passages),
        question_lines=text.passages.get(passages[0]),
        files_read=files_read,
        files_modified=files_modified,
        maker=MAKER,
    )


def first_texts(sentences: Iterable[Sentence]) -> Iterator[str]:
    """The texts of the first sentences, as far as concepts are looked for in them."""
    room = _MAX_CONCEPT_CHARACTERS
    for sentence in sentences:
        yield sentence.text[:room]
        room -= len(sentence.text) + _SENTENCE_END
        if room <= 0:
            return


def observation_id(conversation: str, passage: str, number: int) -> str:
    """The id of an observation, which is the same while its conversation grows.

    It names the first message, and the number among the observations that begin with it.
    """
    key = f"{conversation}\0{passage}".encode("utf-8", "surrogatepass")
    digest = b32encode(hashlib.blake2b(key, digest_size=6).digest()).decode()
    id_ = f"obs-{digest[:10].lower()}"
    if number:
        return f"{id_}-{number}"
    return id_


def is_derived(fact: str) -> bool:
    """Whether a fact has one of the forms that are derived from tool calls and structure."""
    return _FORMS.fullmatch(fact) is not None
