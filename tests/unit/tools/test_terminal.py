"""Whatever is printed, the terminal only shows it."""

import io
import os
import sys
import unicodedata

import pytest
from rich.markup import escape

from tools.paths import REPOSITORY
from tools.progress import Progress
from tools.tables import table
from tools.terminal import Terminal, status_of, terminal

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\x08\r\u202eeslaf\u2066[red]:x:"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\x08\\x0d\\u202eeslaf\\u2066[red]:x:"


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal would obey."""
    return {each for each in text if unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


def test_a_sentence_and_every_part_of_a_table_only_show(screen):
    console = terminal(screen)
    console.print(f"[bold]Why:[/] {escape(HOSTILE)}", soft_wrap=True)
    console.print(table(HOSTILE, ["what"], [[HOSTILE]], escape(HOSTILE)))
    assert obeyed(screen.getvalue()) == set()
    assert screen.getvalue().count(SHOWN) == 4


def test_output_that_nobody_reads_to_its_end_is_not_an_error(monkeypatch):
    def command(text: str) -> int:
        sys.stdout.write(text)
        if text == "help":
            sys.exit(0)  # as argparse does
        return 0

    for text in ("help", "a line", "many lines\n" * 10_000):
        reading, writing = os.pipe()
        os.close(reading)
        with monkeypatch.context() as patched, os.fdopen(writing, "w") as unread:
            patched.setattr(sys, "stdout", unread)
            assert status_of(lambda text=text: command(text)) == 141
    assert status_of(lambda: 3) == 3


def test_every_command_of_the_tools_ends_quietly_when_nobody_reads_on():
    mains = [
        path
        for folder in ("tools", "benchmarks", "tests/api_double")
        for path in (REPOSITORY / folder).rglob("*.py")
        if "argparse.ArgumentParser(" in (text := path.read_text()) and 'if __name__ == "__main__":' in text
    ]
    assert len(mains) > 7
    own = {"training_peers.py", "token_readers.py"}  # programs of benchmarks, which start them
    assert [path for path in mains if "status_of(" not in path.read_text() and path.name not in own] == []


def test_progress_only_shows(screen, tmp_path):
    progress = Progress(durations_file=tmp_path / "durations.json", console=terminal(screen))
    progress.detail(HOSTILE)
    progress.aside(HOSTILE, HOSTILE)
    assert obeyed(screen.getvalue()) == set()
    assert screen.getvalue().count(SHOWN) == 3


@pytest.mark.parametrize("between", ["\x1b[0m", "\x07", "\x1b]0;\x07"])
def test_what_is_written_out_makes_no_markup(screen, between):
    terminal(screen).print(escape(f"[{between}red]x[{between}/]"))
    assert "red]x[" in screen.getvalue()


def test_colours_of_our_own_stay(screen):
    Terminal(file=screen, force_terminal=True, color_system="standard").print("[green]Ready[/]")
    assert "\x1b[32mReady" in screen.getvalue()
