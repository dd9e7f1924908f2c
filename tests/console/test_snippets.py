"""Snippets without Markdown."""

from __future__ import annotations

import pytest

from recollect.serve.console.markup.snippets import plain_snippet


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## A heading", "A heading"),
        ("…text ### A heading", "…text A heading"),
        ("**bold** and *slanted* and ~~gone~~", "bold and slanted and gone"),
        ("[**a link**](https://x.org/a_b)", "a link"),
        ("![a plan](x.png) here", "a plan here"),
        ("use `code` and ```python\nx = 1\n``` here", "use code and x = 1\nhere"),
        ("1. one. 2. two: - three", "1. one. 2. two: three"),
        ("Am 3. Mai kostete es 240. Danach mehr.", "Am 3. Mai kostete es 240. Danach mehr."),
        ("- [x] ready. > quoted", "ready. quoted"),
        ("| a | b | |---|---| | 1 | 2 |", "a b 1 2 "),
        ("the [[barrel]] and [[beds/four|bed *four*]]", "the barrel and bed four"),
        ("a[[1]] and b[[0, 1]]", "a[[1]] and b[[0, 1]]"),
        ("cut off **bold", "cut off bold"),
        ("2 * 3 * 4, snake_case_name, f(*args), a-b", "2 * 3 * 4, snake_case_name, f(*args), a-b"),
        ("C# and #hashtag and a > b - c", "C# and #hashtag and a > b - c"),
    ],
)
def test_markdown_is_removed(text: str, expected: str) -> None:
    assert plain_snippet(text, ())[0].strip() == expected.strip()


def test_marks_stay_on_their_words() -> None:
    text = "# The **tram** to the [old castle](https://x.org)"
    marks = [(text.index("tram"), text.index("tram") + 4), (text.index("cas"), text.index("]"))]
    plain, moved = plain_snippet(text, marks)
    assert plain == "The tram to the old castle"
    assert [plain[start:end] for start, end in moved] == ["tram", "castle"]
