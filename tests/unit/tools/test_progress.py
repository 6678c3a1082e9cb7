"""What a person sees: which step, how long so far, how long still."""

import json
import re
import threading

import pytest

from tests.tables import each_row
from tests.waiting import PATIENCE_SECONDS
from tools import progress
from tools.progress import Progress


def test_a_step_shows_its_begin_and_its_end(report):
    with report.progress.step("images"):
        pass
    assert re.search(r"▶ images\n.*✓ images 0:0", report.text)


def test_a_failed_step_is_named_and_its_error_goes_on(report, tmp_path):
    with pytest.raises(KeyboardInterrupt), report.progress.step("training"):
        raise KeyboardInterrupt
    assert "✗ training after 0:0" in report.text
    assert "✓" not in report.text
    assert not (tmp_path / "durations.json").exists(), "a broken step is not an estimate"


def another(report, folder) -> Progress:
    """The progress of the next run on the same screen."""
    return Progress(durations_file=folder / "durations.json", console=report.progress.console)


def test_the_time_left_comes_from_the_last_run(report, tmp_path):
    (tmp_path / "durations.json").write_text(json.dumps({"tools": 40, "images": 50.5}))
    again = another(report, tmp_path)
    again.plan(["tools", "images"])
    with again.step("tools"):
        pass
    with again.step("images"):
        pass
    assert "▶ tools (1/2, about 1:30 left)" in report.text
    assert "▶ images (2/2, about 0:50 left)" in report.text


@pytest.mark.parametrize(
    ("steps", "typical"),
    [(["tools", "never-run"], None), (["tools", "platform"], {"tools": 0.1, "platform": 0})],
    ids=["an unknown step ahead", "a step that takes longer than expected"],
)
def test_what_is_not_known_gives_no_estimate(report, steps, typical):
    report.progress.plan(steps, typical=typical)
    with report.progress.step("tools"):
        pass
    assert "▶ tools (1/2)\n" in report.text


def test_durations_are_remembered_for_the_next_run(report, tmp_path):
    (tmp_path / "durations.json").write_text(json.dumps({"other": 7}))
    with another(report, tmp_path).step("tools"):
        pass
    assert set(json.loads((tmp_path / "durations.json").read_text())) == {"other", "tools"}


@each_row("content", ["", "{half", "\x00"])
def test_a_damaged_memory_costs_only_the_estimate(report, tmp_path, content):
    (tmp_path / "durations.json").write_text(content)
    again = another(report, tmp_path)
    again.plan(["tools"])
    with again.step("tools"):
        pass
    assert "▶ tools (1/1)" in report.text


@pytest.mark.parametrize("words", ["step [rank 0] loss=0.1", "cannot mount [/data/output]", "[bold]not markup[/bold]"])
def test_details_are_shown_letter_by_letter(report, words):
    report.progress.detail("on its own")
    with report.progress.step("training"):
        report.progress.detail(words)
    assert "on its own" in report.text
    assert f"    {words}\n" in report.text


def test_a_long_step_shows_that_it_is_alive(report, monkeypatch):
    """The heartbeat itself is awaited, no time is measured."""
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.001)
    beaten = threading.Event()
    printed = report.progress._print

    def seen(text: str) -> None:
        printed(text)
        if "… training: epoch 1 \\[rank 0]" in text:
            beaten.set()

    monkeypatch.setattr(report.progress, "_print", seen)
    with report.progress.step("training"):
        report.progress.detail("epoch 1 [rank 0]")
        assert beaten.wait(PATIENCE_SECONDS)
    assert "… training: epoch 1 [rank 0] (0:0" in report.text


def test_no_thread_outlives_its_step(report):
    # no count: a thread of an earlier test may end meanwhile
    before = set(threading.enumerate())
    with report.progress.step("tools"):
        [own] = set(threading.enumerate()) - before
        assert own.is_alive()
    assert not own.is_alive()


def test_a_run_with_typical_times_uses_and_leaves_the_memory_alone(report, tmp_path):
    (tmp_path / "durations.json").write_text(json.dumps({"tools": 1, "images": 2}))
    cold = another(report, tmp_path)
    cold.plan(["tools", "images"], typical={"tools": 600, "images": 60})
    with cold.step("tools"):
        pass
    assert "▶ tools (1/2, about 11:00 left)" in report.text
    assert json.loads((tmp_path / "durations.json").read_text()) == {"tools": 1, "images": 2}


def test_lines_of_what_goes_on_meanwhile_say_whose_they_are(report):
    with report.progress.step("image"):
        report.progress.aside("programs", "compiled [1] of 2")
        report.progress.detail("Debian")
    assert "    programs: compiled [1] of 2\n" in report.text
    assert "    Debian\n" in report.text


def test_the_share_that_is_done_changes_what_is_left(report):
    outlook = report.progress.plan(["tools"], typical={"tools": 600})
    with report.progress.step("tools"):
        report.progress.advance(3, 4)
        assert outlook.left(progress.time.monotonic()) < 60
