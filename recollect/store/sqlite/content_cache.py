"""The contents of compressed messages that were read lately.

Searches read the same messages again and again, and decompressing them takes longer than reading
them from the database. The key is the compressed message itself, so no entry is ever outdated.
"""

from __future__ import annotations

# The characters of one generation. Together, both take about 8 MB, with other scripts 20 MB.
_MAX_CHARACTERS = 2_500_000


class ContentCache:
    """Remembers what was used in this generation or in the one before it.

    For any number of threads: at worst, a content is decompressed twice.
    """

    def __init__(self) -> None:
        self._contents: dict[bytes, str] = {}
        self._earlier_contents: dict[bytes, str] = {}
        self._characters = 0

    def get(self, body: bytes) -> str | None:
        content = self._contents.get(body)
        if content is None:
            content = self._earlier_contents.get(body)
            if content is not None:
                self.add(body, content)
        return content

    def add(self, body: bytes, content: str) -> None:
        if self._characters > _MAX_CHARACTERS:
            self._earlier_contents = self._contents
            self._contents = {}
            self._characters = 0
        self._contents[body] = content
        self._characters += len(content)
