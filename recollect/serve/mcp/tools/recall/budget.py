"""The token budget of an answer: lines are added until it is used up."""

from __future__ import annotations

from recollect.serve.mcp.context import ToolError

MIN_TOKENS = 100
MAX_TOKENS = 50_000
_CHARACTERS_PER_TOKEN = 4  # of English text


def count_tokens(text: str) -> int:
    """About how many tokens a text costs. Outside ASCII, a character is about one token."""
    ascii_length = len(text.encode("ascii", "ignore"))
    return -(-ascii_length // _CHARACTERS_PER_TOKEN) + len(text) - ascii_length


def cut(text: str, tokens: int) -> str:
    """The beginning of a text that costs at most so many tokens, up to a line or word end."""
    if count_tokens(text) <= tokens:
        return text
    length = min(len(text), tokens * _CHARACTERS_PER_TOKEN)
    while length and count_tokens(text[:length]) > tokens:
        length = length * 9 // 10
    head = text[:length]
    for separator in ("\n", " "):
        end = head.rfind(separator)
        if end > length * 3 // 4:
            return head[:end].rstrip()
    return head.rstrip()


class Budget:
    """The lines of an answer, which cost at most `limit` tokens together."""

    def __init__(self, limit: int, reserve: int = 0) -> None:
        """`reserve` tokens, but at most a third of all, are left for what `close` adds."""
        if not MIN_TOKENS <= limit <= MAX_TOKENS:
            raise ToolError(f"max_tokens: give a number from {MIN_TOKENS} to {MAX_TOKENS:,}.")
        self._reserve = min(reserve, limit // 3)
        self._room = limit - self._reserve
        self._lines: list[str] = []

    @property
    def room(self) -> int:
        """How many tokens are left."""
        return self._room

    def add(self, text: str) -> bool:
        """Add a line, or several, if they fit."""
        cost = count_tokens(text + "\n")
        if cost > self._room:
            return False
        self._room -= cost
        self._lines.append(text)
        return True

    def add_beginning(self, text: str) -> bool:
        """Add a text, or as much of it as fits; return whether all of it did."""
        if self.add(text):
            return True
        beginning = cut(text, self._room - 2)
        self.add(f"{beginning}…")
        return False

    def close(self, *remarks: str) -> str:
        """The whole answer, with remarks at the end that use the reserve."""
        self._room += self._reserve
        for remark in filter(None, remarks):
            self.add(cut(remark, self._room - 1))
        return "\n".join(self._lines)
