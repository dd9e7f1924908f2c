"""Observations as a document, and back.

There is one for each conversation; each observation is a passage that only its own search finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.memory.observe.summary import Digest, summary
from recollect.model.documents import Document, Passage
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.observations import Observation

_TUPLES = ("passages", "facts", "concepts", "files_read", "files_modified")


def as_document(
    conversation: Document, observations: Iterable[Observation], digest: Digest | None = None
) -> Document:
    """The observations of a conversation, as they are stored; with what the session was about as a whole."""
    told = digest if digest is not None else summary(conversation)
    id_ = conversation.id or conversation.source_id
    return Document(
        source=OBSERVATIONS,
        source_id=id_,
        id=f"{OBSERVATIONS}:{id_}",
        title=conversation.title,
        kind=OBSERVATION,
        project=conversation.project,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        passages=tuple(map(_passage, observations)),
        metadata={"summary": told._asdict()},
    )


def searched(observation: Observation) -> str:
    """What of an observation is searched: what it says, line by line, and what filters ask for."""
    o = observation
    files = dict.fromkeys((*o.files_modified, *o.files_read))
    listed = [
        f"{name}: {', '.join(values)}"
        for name, values in (("Concepts", o.concepts), ("Files", files))
        if values
    ]
    return "\n".join(filter(None, (o.title, o.subtitle, *o.facts, o.narrative, *listed)))


def from_passage(passage: Passage, project: str) -> Observation:
    """The observation that a passage holds; `project` is its document's namespace."""
    told = passage.metadata
    first, last = told.get("lines") or (1, 1)
    asked = told.get("asked")
    return Observation(
        id=passage.id,
        type=passage.role or "discovery",
        title=str(told.get("title") or passage.content.partition("\n")[0]),
        conversation=str(told.get("conversation") or ""),
        subtitle=str(told.get("subtitle") or ""),
        narrative=str(told.get("narrative") or ""),
        project=project,
        created_at=passage.created_at,
        lines=(int(first), int(last)),
        asked=(int(asked[0]), int(asked[1])) if asked else None,
        maker=str(told.get("maker") or ""),
        **{key: tuple(map(str, told.get(key) or ())) for key in _TUPLES},
    )


def _passage(observation: Observation) -> Passage:
    return Passage(
        id=observation.id,
        role=observation.type,
        content=searched(observation),
        type=OBSERVATION,
        created_at=observation.created_at,
        visibility="hidden",
        metadata={
            "title": observation.title,
            "subtitle": observation.subtitle,
            "narrative": observation.narrative,
            **{key: list(getattr(observation, key)) for key in _TUPLES},
            "conversation": observation.conversation,
            "lines": list(observation.lines),
            "asked": list(observation.asked or ()),
            "maker": observation.maker,
        },
    )
