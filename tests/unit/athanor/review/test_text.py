"""Whatever a resource is called, it stays text."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from athanor.review.text import code, fenced, html_code, printable
from tests.tables import each_row

HOSTILE = [
    "a|b", "a\\|b", "`", "``` ", "a`b", "<script>alert(1)</script>", "@octocat", "**bold**", "[x](http://e)", "\n# h",
    "</summary></details>", "&lt;", "www.example.com", "\u202egnp", "\ud800", "", " ", "a" * 100_000, "![](x)",
    "\x00\x1b[31m",
]  # fmt: skip
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


@each_row("text", HOSTILE)
def test_a_name_is_one_cell_of_a_table_and_nothing_but_code(text: str) -> None:
    table = f"| a | b |\n|---|---|\n| {code(text)} | end |\n"
    rendered = PARSER.render(table)
    assert rendered.count("<td>") == 2
    assert "<td>end</td>" in rendered
    assert not re.search(r"<(script|a|img|strong|h1)\b", rendered)
    outside = re.sub(r"<code>.*?</code>", "", rendered, flags=re.DOTALL)
    assert "@" not in outside
    assert len(code(text)) < 2000


@given(st.text(max_size=60))
def test_any_name_is_inline_code(text: str) -> None:
    rendered = PARSER.renderInline(f"before {code(text)} after")
    assert rendered.startswith("before ")
    assert rendered.endswith(" after")
    assert re.sub(r"<code>[^<]*</code>", "", rendered) in {"before  after", "before (no name) after"}


@given(st.text(max_size=60))
def test_inside_html_nothing_but_letters_and_entities_is_left(text: str) -> None:
    inner = html_code(text).removeprefix("<code>").removesuffix("</code>")
    assert re.fullmatch(r"([A-Za-z0-9 -]|&#\d+;)*", inner)


@example(["```", "a"])
@example(["`````", "```"])
@given(st.lists(st.text(alphabet="`~ a\t", max_size=12), max_size=6))
def test_nothing_closes_a_fence(lines: list[str]) -> None:
    clean = [printable(line) for line in lines]
    tokens = PARSER.parse("\n".join([*fenced(clean), "", "after"]))
    assert tokens[0].type == "fence"
    assert tokens[0].content == "".join(f"{line}\n" for line in clean)
