"""How observations are stored.

Each conversation has one document of observations. Each observation is a hidden passage, so only a
search for observations finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.model.documents import Document, Passage
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.observations import Observation

FORGOTTEN_IDS = "forgotten"
"""The metadata key of a conversation with the ids of observations that must not be made again."""

_TUPLES = ("passages", "facts", "concepts", "files_read", "files_modified")


def forgotten_ids(metadata: Mapping[str, Any]) -> set[str]:
    """The ids of the observations that were deleted from the conversation with this metadata."""
    ids = metadata.get(FORGOTTEN_IDS)
    if not isinstance(ids, list):
        return set()
    return set(map(str, ids))


def as_document(conversation: Document, observations: Iterable[Observation]) -> Document:
    """The document that stores the observations of a conversation."""
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
        passages=tuple(map(as_passage, observations)),
    )


def searchable_text(observation: Observation) -> str:
    """The text of an observation that is indexed, with its concepts and files."""
    lines = [observation.title, observation.subtitle, *observation.facts, observation.narrative]
    if observation.concepts:
        # Their order follows from the whole conversation. Sorted, the text stays the same while the
        # conversation grows, and need not be indexed again.
        lines.append(f"Concepts: {', '.join(sorted(observation.concepts))}")
    files = dict.fromkeys((*observation.files_modified, *observation.files_read))
    if files:
        lines.append(f"Files: {', '.join(files)}")
    return "\n".join(line for line in lines if line)


def from_passage(passage: Passage, project: str) -> Observation:
    """The observation that a passage stores; `project` is that of its document."""
    metadata = passage.metadata
    first, last = metadata.get("lines") or (1, 1)
    question_lines = None
    if metadata.get("asked"):
        question_first, question_last = metadata["asked"]
        question_lines = (int(question_first), int(question_last))
    return Observation(
        id=passage.id,
        type=passage.role or "discovery",
        title=str(metadata.get("title") or passage.content.partition("\n")[0]),
        conversation=str(metadata.get("conversation") or ""),
        subtitle=str(metadata.get("subtitle") or ""),
        narrative=str(metadata.get("narrative") or ""),
        project=project,
        created_at=passage.created_at,
        lines=(int(first), int(last)),
        question_lines=question_lines,
        maker=str(metadata.get("maker") or ""),
        **{key: tuple(map(str, metadata.get(key) or ())) for key in _TUPLES},
    )


def as_passage(observation: Observation) -> Passage:
    return Passage(
        id=observation.id,
        role=observation.type,
        content=searchable_text(observation),
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
            "asked": list(observation.question_lines or ()),
            "maker": observation.maker,
        },
    )
