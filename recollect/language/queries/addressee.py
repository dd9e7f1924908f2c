"""Whose words answer a question: only those of the user, or those of the assistant as well.

Most questions to a library of conversations are about the user's own life and work ("Which hotel
did I book?"), and the user's own messages answer them. Three kinds of questions are different:

- about what the assistant said: "Which hotel did you recommend?"
- for advice or instructions: "How do I reset the router?", "Any tips for Rome?"
- about the world in general, in the present tense: "How does yeast work?" A question that says "I"
  or "my", or names somebody's things ("What is Anna's address?"), is not general.

The first two are recognized in every language (`language.languages`), the third in English.

"Can you …" is a polite way to ask. "Can you tell me where I parked?" is about the user, and "What
do you recommend?" is a request, not a question about what the assistant has recommended before.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recollect.language.detection import language_of

# Requests that are too vague for the record of the language: they need not be for advice, but the
# assistant answers them.
_TO_ASSISTANT = re.compile(
    r"""\bhow\ would\ (?:i|we|you|one)\b|\bhow\ to\b
    |\b(?:should|can|could|may)\ (?:i|we)\b|\b(?:i|we)\ (?:should|could|can)\b
    |\b(?:can|could|would|will|do)\ you\b
    |\bwhat\ are\ some\b|\bwhat(?:['’]s|\ is|\ are)\ the\ best\b""",
    re.IGNORECASE | re.VERBOSE,
)
_POLITE = re.compile(
    r"\b(?:can|could|would|will|do)\ you\ (?:please\ )?(?!remind\b)", re.IGNORECASE | re.VERBOSE
)
_POLITE_QUESTION = re.compile(
    r"""\s*(?:please\ )?(?:can|could|would|will)\ you\ (?:please\ )?
    (?:tell|remind|list|recall|walk|show|find)\b(?:\ (?:me|us)\b)?
    (?P<question>.*)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_ABOUT_WORLD = re.compile(
    r"""\s*(?:(?:what|which|how|why)(?:\ \w+)?(?:['’]s|\ (?:is|are|do|does|can))
    |is|are|do|does)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)
_OWNER = re.compile(r"\s[A-Z]\w*['’]s\b")


@lru_cache(maxsize=8)  # a search asks several times
def is_about_assistant(question: str) -> bool:
    """Whether it asks what the assistant said."""
    return language_of(question).is_about_assistant(_POLITE.sub("", question))


@lru_cache(maxsize=8)
def is_about_user(question: str) -> bool:
    """Whether the user's own messages probably contain the answer."""
    if is_about_assistant(question) or language_of(question).is_request(question):
        return False
    polite = _POLITE_QUESTION.match(question)
    if polite is not None and not _TO_ASSISTANT.search(polite["question"]):
        return _FIRST_PERSON.search(polite["question"]) is not None
    if _TO_ASSISTANT.search(question):
        return False
    if not _ABOUT_WORLD.match(question):
        return True
    return bool(_FIRST_PERSON.search(question) or _OWNER.search(question))


def is_to_assistant(question: str) -> bool:
    """Whether the assistant should answer it: a request for advice, or a general question."""
    return not is_about_assistant(question) and not is_about_user(question)
