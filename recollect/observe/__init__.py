"""Observations: what a conversation is worth remembering for.

`observe` makes them locally, by rules; `model` by a configured model. They are
derived: `maker` names what made them, and they can be made anew at any time.
"""

from recollect.observe.kinds import TYPES, type_of
from recollect.observe.reading import reading
from recollect.observe.rules import MAKER, observe
from recollect.observe.storing import as_document, from_passage
from recollect.observe.summary import Digest, summary

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
