"""A table shows its cells as they are."""

from rich.console import Console
from rich.text import Text

from tests.tables import each_row
from tools.tables import table


@each_row("name", ["[red]x", "[/]", "[/data]", "[link=http://evil]x"])
def test_a_table_shows_all_its_words_as_they_are(name):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(f"Job {name}", ["what", "state"], [[name, Text("Ready", "green")]], "and more"))
    assert capture.get().count(name) == 2
    for word in ("Job", "what", "state", "Ready", "and more"):
        assert word in capture.get()
