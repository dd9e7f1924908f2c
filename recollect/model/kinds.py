"""The kinds of documents: one table, from which every interface takes its names."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of document, under each name that an interface uses for it."""

    name: str
    """Stored with every document: `note`."""
    plural: str
    """In paths, commands and the console: `notes`."""
    knowledge: str
    """The `source` of the Knowledge API: `notes`; conversations are `chats` there."""


KIND_TABLE = (
    Kind("conversation", "conversations", "chats"),
    Kind("note", "notes", "notes"),
    Kind("media", "media", "media"),
    Kind("character", "characters", "characters"),
    Kind("prompt", "prompts", "prompts"),
)
KINDS = tuple(kind.name for kind in KIND_TABLE)
CONVERSATION, NOTE, MEDIA, CHARACTER, PROMPT = KINDS

OBSERVATION = "observation"
"""A derived kind, in no list of kinds: what was observed in one conversation."""
OBSERVATIONS = "observations"
"""The source of observations. The source id of each is the id of its conversation."""
PREFERENCE = "preference"
"""The type of an observation, in its field `role`: what a person allows, requires or prefers."""
