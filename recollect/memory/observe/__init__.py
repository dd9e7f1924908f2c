"""Observations: what is worth remembering of a conversation.

`observe` makes them locally by rules; `observe.model` makes them with a language model. They are
derived data: `maker` names what made them, and they can be made again at any time.
"""

from recollect.memory.observe.cues import TYPES, parse_type
from recollect.memory.observe.exchanges import ConversationText, conversation_text
from recollect.memory.observe.rules import MAKER, observe
from recollect.memory.observe.storing import (
    FORGOTTEN_IDS,
    as_document,
    forgotten_ids,
    from_passage,
)

__all__ = [
    "FORGOTTEN_IDS",
    "MAKER",
    "TYPES",
    "ConversationText",
    "as_document",
    "conversation_text",
    "forgotten_ids",
    "from_passage",
    "observe",
    "parse_type",
]
