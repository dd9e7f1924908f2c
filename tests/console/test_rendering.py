"""Stored text is rendered to harmless, readable HTML."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selection import few

from recollect.serve.console.markup import formulas, rendering
from recollect.serve.console.markup.formulas import Allowance
from recollect.serve.console.markup.rendering import (
    beginning,
    highlight,
    plain,
    query_terms,
)


def markdown(text: str) -> str:
    return rendering.Page().markdown(text)


ALLOWED = {
    "a",
    "blockquote",
    "br",
    "code",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
    "del",
    "div",
    "mark",
}
ATTRIBUTES = {"href", "title", "class", "rel", "target", "start"}
MATH_ATTRIBUTES = ATTRIBUTES | formulas.ATTRIBUTES["math"]

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "[x](//evil.example/)",
    "[x](/logout)",
    "[x](\\\\evil.example)",
    "<javascript:alert(1)>",
    "![x](http://127.0.0.1:9/b?leak=1)",
    "![x][r]\n\n[r]: http://127.0.0.1:9/b",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "![](javascript:alert(1))",
    '[x](http://a.b "onmouseover=alert(1)")',
    "[x](http://a.b'onclick=alert(1))",
    '```"><img src=x onerror=alert(1)>\ncode\n```',
    "```html\n<script>alert(1)</script>\n```",
    "`<script>alert(1)</script>`",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "</mark><img src=x onerror=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "<style>@import url(http://127.0.0.1:9/)</style>",
    "<link rel=prefetch href=http://127.0.0.1:9/>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><button>x</button></form>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "\ud800<script>\x00alert(1)</script>",
    r"$\text{<script>alert(1)</script>}$",
    r"$\text{</mtext></math><img src=x onerror=alert(1)>}$",
    r"$$\href{javascript:alert(1)}{x}$$",
    r"$\class{x\" onclick=alert(1)}{y}$",
    "$<img src=x onerror=alert(1)>$",
    "\\[<mglyph><style></math><img src onerror=alert(1)>\\]",
    r"$\unknown{<script>alert(1)</script>}$",
    r"$\color{red;background:url(//evil.example)}{x}$",
    "- [x] <img src=x onerror=alert(1)>",
    "- [ ] [x](javascript:alert(1))",
]


class ParsedHtml(HTMLParser):
    """The tags and the text that a browser sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(html: str) -> ParsedHtml:
    parsed = ParsedHtml(html)
    for tag, attributes in parsed.tags:
        if tag in formulas.TAGS:
            assert attributes.keys() <= MATH_ATTRIBUTES, attributes
            continue
        assert tag in ALLOWED, tag
        assert attributes.keys() <= ATTRIBUTES, attributes
        if tag == "a":
            assert re.match(
                r"(https?://|mailto:)", attributes.get("href") or "https://", re.IGNORECASE
            ), attributes
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"
    return parsed


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_rendered_as_text(attack: str) -> None:
    assert_harmless(markdown(attack))
    assert_harmless(plain(attack).replace('<pre class="plain">', "<pre>"))


@given(
    st.text(max_size=300)
    | st.text("<>[]()!`*_~|\\&#;:/\"' \nabhrefsrcjavascript\t\x00$${}^", max_size=300)
)
def test_any_text_renders_to_safe_html(text: str) -> None:
    assert_harmless(markdown(text))


@given(
    st.text(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=5)
)
def test_highlighting_keeps_the_text_of_a_snippet(text: str, marks: list[tuple[int, int]]) -> None:
    html = highlight(text, marks)
    assert set(re.findall(r"<[^>]*>", html)) <= {"<mark>", "</mark>"}
    assert unescape(re.sub(r"</?mark>", "", html)) == unescape(str(highlight(text, ())))


def test_highlights_surround_escaped_text() -> None:
    assert highlight("a <b> c", [(2, 5)]) == "a <mark>&lt;b&gt;</mark> c"
    assert highlight("</mark><script>", [(0, 7)]) == "<mark>&lt;/mark&gt;</mark>&lt;script&gt;"


def test_colours_of_terminals_are_not_shown() -> None:
    text = "\x1b[38;2;136;1;1mred\x1b[39m and \x1b[1mbold\x1b[22m"
    assert "<p>red and bold</p>" in markdown(text)
    assert plain(text) == '<pre class="plain">red and bold</pre>'


def test_images_become_links_with_their_alt_text() -> None:
    parsed = assert_harmless(markdown("![a plan](https://example.org/plan.png)"))
    assert ("a", "https://example.org/plan.png") in [(tag, a.get("href")) for tag, a in parsed.tags]
    assert "Image: a plan" in parsed.text


def test_only_web_and_mail_links_are_links() -> None:
    assert 'href="https://example.org/"' in markdown("[there](https://example.org/)")
    assert 'href="mailto:a@b.example"' in markdown("<mailto:a@b.example>")
    for text in (
        "[x](/logout)",
        "[x](file:///etc/passwd)",
        "[x](ftp://a.b)",
        "https://example.org/",
    ):
        assert "href" not in markdown(text)


def test_markdown_is_rendered() -> None:
    html = markdown(
        "# Title\n\n**bold** *soft* ~~gone~~ `code`\n\n- a\n- b\n\n"
        "| x | y |\n|:-|-:|\n| 1 | 2 |\n\n> said"
    )
    inline = (
        "<h1>Title</h1>",
        "<strong>bold</strong>",
        "<em>soft</em>",
        "<s>gone</s>",
        "<code>code</code>",
    )
    blocks = (
        "<li>a</li>",
        '<th class="align-right">y</th>',
        '<td class="align-left">1</td>',
        "<blockquote>",
    )
    for part in inline + blocks:
        assert part in html


def test_line_breaks_are_kept() -> None:
    assert "one<br>\ntwo" in markdown("one\ntwo")


@pytest.mark.parametrize(
    ("text", "blanks"),
    [
        ("def f():\n    if x:\n\t\treturn 1", ["    ", "\t\t"]),
        ("name    price\ngreen   2.50", ["    ", "   "]),
        ("- a list\n      with an indented line", ["    "]),
        ("**bold**  and   more", ["  ", "   "]),
    ],
)
def test_indentation_and_columns_are_kept(text: str, blanks: list[str]) -> None:
    html = markdown(text)
    assert re.findall(r'<span class="blanks">(\s+)</span>', html) == blanks
    assert ParsedHtml(html).text.split() == re.sub(r"[*]|^- ", "", text).split()


def test_code_is_highlighted_if_its_language_is_given() -> None:
    assert '<span class="k">def</span>' in markdown("```python\ndef f(): pass\n```")
    assert "<span" not in markdown("```\ndef f(): pass\n```")
    assert "def f" in ParsedHtml(markdown("```no-such-language\ndef f\n```")).text


def test_deeply_nested_lists_lose_no_text() -> None:
    deep = "".join("  " * n + f"- level{n}\n" for n in range(120))
    assert all(f"level{n}" in markdown(deep) for n in range(120))


def test_text_that_is_too_long_or_complex_is_shown_as_plain_text() -> None:
    assert markdown("*a* " * rendering.MARKDOWN_CHARS).startswith('<pre class="plain">')
    assert markdown("[" * 5_000).startswith('<pre class="plain">')


def test_a_long_text_is_cut_at_the_end_of_a_line() -> None:
    text = "a line of text\n" * 4_000
    assert beginning("short") == "short"
    assert beginning(text).endswith("text")
    assert rendering.MESSAGE_CHARS * 3 // 4 <= len(beginning(text)) <= rendering.MESSAGE_CHARS
    assert len(beginning("x" * 50_000)) == rendering.MESSAGE_CHARS


def test_query_terms_include_stems() -> None:
    assert query_terms('role:user "running shoes" NOT rain') == ["run", "running", "shoe", "shoes"]
    assert query_terms("before:nonsense") == []
    assert query_terms("") == []


@pytest.mark.parametrize(
    "source",
    [
        "{" * 2_000 + "x" + "}" * 2_000,
        "\\sqrt" * 700 + "x",
        "\\frac1" * 600,
        "\\left(" * 600,
        "\\begin{matrix}" * 200,
        "x" * 5_000,
    ],
)
def test_formulas_that_are_too_deep_or_too_long_are_shown_as_source(source: str) -> None:
    assert formulas.mathml(source, True, Allowance(1)) == f'<code class="formula">{source}</code>'


@pytest.mark.parametrize("text", few(["\\[\n" * 16_000, "\\(" * 25_000, "$a " * 16_000], 1))
def test_formulas_that_do_not_end_are_text(text: str) -> None:
    assert "<math" not in markdown(text)


@pytest.mark.parametrize("text", ["$5 or $6", "$HOME/$USER", "a$b$c", "`$x$`", "US$ 5 $", "$ x $"])
def test_prices_and_variables_are_not_formulas(text: str) -> None:
    html = markdown(text)
    assert "<math" not in html
    assert "formula" not in html


# Texts that would need minutes.
SLOW_CODE = f"**bold** $x$\n\n```java\n{'a ' * 9_500}\n```"
SLOW_FORMULA = f"**bold** $${'(_)' * 40}$$\n\n```python\nx = 1\n```"
SLOW_EDIT = "file_path: a\n" + "old_string: b\n" * 3_000


def test_code_that_takes_a_lexer_too_long_has_no_colours() -> None:
    html = markdown(SLOW_CODE)
    assert "<strong>bold</strong> <math>" in html
    assert '<span class="language">java</span><code>a a' in html


def test_a_formula_that_hangs_the_converter_is_shown_as_source() -> None:
    assert '<strong>bold</strong> <code class="formula">(_)' in markdown(SLOW_FORMULA)
    assert "<math>" in markdown("another $x$")


@pytest.mark.full
def test_an_edit_that_takes_too_long_to_compare_is_no_diff() -> None:
    assert rendering.Page().edit_diffs("Edit", SLOW_EDIT) == []


def test_the_texts_of_a_page_share_an_allowance() -> None:
    page = rendering.Page()
    long = f"**bold** {'a ' * 600}"
    assert "<strong>" in page.markdown(long)
    page._seconds_left = 0
    assert "<strong>" not in page.markdown(long)
    assert "<strong>" in page.markdown("**short**")


def test_texts_of_several_people_are_rendered_at_once() -> None:
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(markdown, SLOW_CODE + " ")
        assert "<strong>" in threads.submit(markdown, "**quick**").result()
        assert "<strong>" in slow.result()
