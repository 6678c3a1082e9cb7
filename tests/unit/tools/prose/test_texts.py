"""What counts as prose in a file, and what is code."""

from tests.tables import each_row
from tools.prose.__main__ import phrases
from tools.prose.texts import bound_names, function_names, markdown_prose, python_prose


def _lines(prose: str) -> list[int]:
    return [finding.line for finding in phrases(prose)]


@each_row(
    "text",
    [
        "`whoever`",
        "``a ` whoever``",
        "```sh\nwhoever\n```",
        "~~~\nwhoever\n~~~",
        "[a link](whoever.md)",
        "https://example.org/whoever",
        "<!-- prose: off -->\nwhoever\n<!-- prose: on -->",
    ],
)
def test_code_and_links_of_markdown_are_not_read(text):
    assert _lines(markdown_prose(f"First.\n\n{text}\n\nIt waits for ever.\n")) == [text.count("\n") + 5]


def test_text_of_markdown_is_read_across_lines():
    assert _lines(markdown_prose("# The newest\n\n| it is\nno `label` | [beside](x.md) |\n")) == [1, 3, 4]


@each_row(
    "source",
    [
        '"""It waits\n\n    for ever."""\n',
        "# It waits for\n# ever\n",
        "x = 1  # it waits for ever\n",
        "raise ValueError(f'{x:>{y}} waits ' 'for ever')\n",
        "print(\n    'It waits '\n    f'for ever: {x}'\n)\n",
        "print(r'waits for ever')\n",
        "print('Waits\\nfor ever')\n",
    ],
)
def test_comments_and_strings_of_python_are_read(source):
    (finding,) = phrases(python_prose(source))
    assert finding.phrase == "for ever"


@each_row(
    "source",
    [
        "whoever = told(beside)\n",
        "print(f'{whoever} {told:>{beside}}')\n",
        "x = ['for', 'ever']\n",
        "x = 'for'; y = 'ever'\n",
        '"""Calls `whoever`."""\n',
    ],
)
def test_code_of_python_is_not_read(source):
    assert phrases(python_prose(source)) == []


def test_lines_of_python_are_those_of_the_file():
    source = "import os\n\n\ndef f():\n    '''First.\n\n    Whoever.\n    '''\n    return os  # beside\n"
    assert _lines(python_prose(source)) == [7, 9]


def test_names_are_reported_where_they_are_defined():
    source = """
found = 1
for shown, x in y:
    x.wanted = told
def told(found, *, shown: int, **wanted): return found(shown)
class A:
    told: int
z = [_ for found in y]
with a as (b, told): pass
"""
    assert sorted(name for name in bound_names(source) if name[1] not in {"x", "z", "_", "b", "A"}) == [
        (2, "found"), (3, "shown"), (4, "wanted"), (5, "found"), (5, "shown"), (5, "told"), (5, "wanted"), (7, "told"),
        (8, "found"), (9, "told"),
    ]  # fmt: skip


def test_names_of_functions_are_read_as_words():
    source = "class A:\n    def test_it_is_told(self): ...\n\nasync def _wait_for_ever(): ...\ndef main(): ...\n"
    assert function_names(source) == [(2, "test it is told"), (4, "wait for ever")]
