"""Observations by rules: what was done, from tool calls; what was said, in its own sentences.

Nothing is invented. A fact is part of a sentence of the source, or says what a tool did. The same
document always gives the same observations.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode

from recollect.memory.observe.drafts import drafts
from recollect.memory.observe.exchanges import conversation_text, split_exchanges
from recollect.memory.observe.salience import Salience, concepts
from recollect.memory.observe.stretches import split_stretches
from recollect.model.documents import Document
from recollect.model.names import is_folder
from recollect.model.observations import Observation
from recollect.models.stopping import Stop, never_stop, require_running

MAKER = "rules-5"
_MAX_CONCEPT_SENTENCES = 50
"""Of the person; a longer message is mostly pasted."""


def observe(document: Document, stop: Stop = never_stop) -> list[Observation]:
    """What is worth remembering of a conversation, in its order. Raises IndexingStopped."""
    exchanges = split_exchanges(document)
    text = conversation_text(document, exchanges)
    stretches = split_stretches(exchanges, document.project, stop)
    # A conversation is about work in a project, or about everyday life.
    is_everyday = not is_folder(document.project) and not any(
        passage.type == "tool_call" for passage in document.passages
    )
    salience = Salience(stretch.sentences for stretch in stretches)
    conversation = document.id or document.source_id
    observations: list[Observation] = []
    for stretch in stretches:
        require_running(stop)
        stretch.is_everyday = is_everyday
        passages = tuple(passage.id for passage in stretch.passages)
        times = [passage.created_at for passage in stretch.passages if passage.created_at]
        person_texts = [each.text for each in stretch.person_sentences[:_MAX_CONCEPT_SENTENCES]]
        for number, draft in enumerate(drafts(stretch, salience)):
            texts = [(text, 1.0) for text in (draft.title, *person_texts)]
            texts += [(text, 0.6) for text in (*draft.facts, *draft.narrative, draft.subtitle)]
            work = stretch.work
            observations.append(
                Observation(
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
                    files_read=tuple(work.files_read[:50]) if draft.has_files else (),
                    files_modified=work.files_modified[:50] if draft.has_files else (),
                    maker=MAKER,
                )
            )
    return observations


def observation_id(conversation: str, passage: str, number: int) -> str:
    """The id of an observation, which is the same while its conversation grows.

    It names the first message, and the number among the observations that begin with it.
    """
    key = f"{conversation}\0{passage}".encode("utf-8", "surrogatepass")
    digest = b32encode(hashlib.blake2b(key, digest_size=6).digest()).decode()
    return f"obs-{digest[:10].lower()}" + (f"-{number}" if number else "")
