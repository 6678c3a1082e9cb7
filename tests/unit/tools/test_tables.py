"""A table shows its cells as they are."""

from rich.console import Console
from rich.text import Text

from tests.tables import each_row
from tools.tables import table


def test_a_table_shows_title_heads_and_cells():
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as capture:
        console.print(table("Pods", ["pod", "state"], [["pod-0", Text("Ready", "green")]], "and more"))
    text = capture.get()
    for word in ("Pods", "pod", "state", "pod-0", "Ready", "and more"):
        assert word in text


@each_row("name", ["[red]x", "[/]", "[/data]", "[link=http://evil]x"])
def test_a_name_that_looks_like_markup_is_a_name(name):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(f"Job {name}", ["what"], [[name]]))
    assert capture.get().count(name) == 2
