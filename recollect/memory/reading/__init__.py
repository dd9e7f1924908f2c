"""Conversations as Markdown: their texts for each audience, and how they are read."""

from recollect.memory.reading.reader import (
    DEFAULT_READ_TOKENS,
    MAX_TOKENS,
    MIN_TOKENS,
    ReadOptions,
    find_conversation,
    read_conversation,
)
from recollect.memory.reading.texts import ConversationTexts, exchange_lines, with_lines

__all__ = [
    "DEFAULT_READ_TOKENS",
    "MAX_TOKENS",
    "MIN_TOKENS",
    "ConversationTexts",
    "ReadOptions",
    "exchange_lines",
    "find_conversation",
    "read_conversation",
    "with_lines",
]
