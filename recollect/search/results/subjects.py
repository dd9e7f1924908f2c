"""What a remark calls the results that a search could have found."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.model.kinds import CONVERSATION, KINDS, MEDIA

_PASSAGES = {CONVERSATION: "message", MEDIA: "media item"}
"""What a remark calls the results of a kind; otherwise, by the name of the kind."""


def subject_of(kinds: Sequence[str], all_kinds: str = "No message") -> str:
    """The subject of a remark on a search in these kinds; no kinds mean all of them.

    `all_kinds` is the subject if all kinds are searched.
    """
    if not kinds or set(kinds).issuperset(KINDS):
        return all_kinds
    if len(kinds) == 1:
        return f"No {_PASSAGES.get(kinds[0], kinds[0])}"
    return "Nothing"
