"""How many candidates a search finds, reads and ranks."""

from __future__ import annotations

from functools import cached_property

from recollect.language.queries.intent import KEYWORDS, QUESTION
from recollect.search.queries.interpretation import Interpretation
from recollect.store.base import Store

CANDIDATES = 150
"""Candidates of each arm."""
MATCHES_OF_QUESTION = 300
"""If a question has both arms, they find more, of which a shortlist is ranked."""
ALWAYS_RANKED = 30
"""The first of each arm are always in the shortlist."""
_LARGE_LIBRARY = 20_000  # messages
_CANDIDATES_WHILE_TYPING = 60
"""Fewer, because each key is a search, and the next key replaces its result."""
_CANDIDATES_OF_PERIOD = 50  # of each arm, for each period that a question names
_SHORTLIST = 160
_SHORTLIST_FOR_CONVERSATIONS = 250
"""Longer, because a list of conversations judges each by its messages."""
_SHORTLIST_IN_SMALL_LIBRARY = 120
_RANKED_MESSAGES = 100
"""Candidates of each arm that are ranked if there is no shortlist."""
_RANKED_KEYWORDS = 60
"""Fewer for keywords, because the text arm finds them in almost the same order."""


class Sizes:
    """The sizes of one pool."""

    def __init__(
        self, interpretation: Interpretation, store: Store, max_arm: int | None = None
    ) -> None:
        """`max_arm`: the most candidates of each arm, if fewer than usual."""
        self._interpretation = interpretation
        self._store = store
        self.arm = self._usual_arm()
        """Candidates of each arm."""
        if max_arm is not None:
            self.arm = min(max_arm, self.arm)
        self.period_arm = min(_CANDIDATES_OF_PERIOD, self.arm)
        """Candidates of each arm for a period that a question names."""
        self.has_shortlist = self.arm > CANDIDATES
        """Whether only a shortlist of what the arms find is ranked; see `shortlist`."""

    def _usual_arm(self) -> int:
        interpretation = self._interpretation
        if interpretation.options.typing:
            return _CANDIDATES_WHILE_TYPING
        has_words = interpretation.node is not None
        has_both_arms = has_words and interpretation.meaning.vector is not None
        is_question = interpretation.intent == QUESTION and interpretation.is_plain
        if not is_question or not has_both_arms:
            return CANDIDATES
        if self._is_by_conversation and not self.is_large_library:
            return CANDIDATES
        return MATCHES_OF_QUESTION

    @property
    def _is_by_conversation(self) -> bool:
        return self._interpretation.options.group == "conversation"

    @cached_property
    def is_large_library(self) -> bool:
        """Whether a library is so large that an answer is often not among the first candidates."""
        return self._store.size() >= _LARGE_LIBRARY

    @property
    def shortlist(self) -> int:
        """Candidates of both arms together that are ranked, if there is a shortlist."""
        if self._is_by_conversation:
            return _SHORTLIST_FOR_CONVERSATIONS
        if self.is_large_library:
            return _SHORTLIST
        return _SHORTLIST_IN_SMALL_LIBRARY

    @property
    def ranked(self) -> int:
        """Candidates of each arm that are ranked, if there is no shortlist."""
        if self._is_by_conversation:
            return self.arm
        if self._interpretation.intent == KEYWORDS:
            return min(_RANKED_KEYWORDS, self.arm)
        return min(_RANKED_MESSAGES, self.arm)

    @property
    def many_matches(self) -> int:
        """If the text arm finds this many matches, some may not be ranked."""
        if self.has_shortlist:
            return ALWAYS_RANKED + 1
        return min(self.arm, self.ranked + 1)
