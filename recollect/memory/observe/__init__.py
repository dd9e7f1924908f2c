"""Observations: what a conversation is worth remembering for.

`observe` makes them locally, by rules; `model` by a configured model. They are
derived: `maker` names what made them, and they can be made anew at any time.
"""

from recollect.memory.observe.kinds import TYPES, type_of
from recollect.memory.observe.reading import reading
from recollect.memory.observe.rules import MAKER, observe
from recollect.memory.observe.storing import as_document, from_passage
from recollect.memory.observe.summary import Digest, summary

__all__ = [
    "MAKER",
    "TYPES",
    "Digest",
    "as_document",
    "from_passage",
    "observe",
    "reading",
    "summary",
    "type_of",
]
