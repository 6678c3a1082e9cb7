"""Programs obtained during other work: what the one that waits sees, and that nothing of it outlives that one."""

import json
import os
import sys
import textwrap

import pytest

from infra.settings.parse import parse_settings
from tests.processes import until_ended
from tools.local_environment import background
from tools.local_environment.background import Background
from tools.local_environment.programs import CORE, GROUPS, MONITORING
from tools.toolchain import ToolchainError

pytestmark = pytest.mark.usefixtures("own_folders")


def saying(*events: dict[str, object], then: str = "") -> list[str]:
    """Return a command that writes these events, then does what `then` says."""
    written = "".join(f"print({json.dumps(event)!r}, flush=True)\n" for event in events)
    return [sys.executable, "-S", "-c", f"import os, signal, sys, time\n{written}{then}"]


def test_each_group_is_waited_for_by_itself(report):
    command = saying({"ready": CORE}, then="signal.pause()")
    with Background("local", GROUPS, report.progress, command=command) as running:
        running.wait(CORE)
        assert running.is_ready(CORE)
        assert not running.is_ready(MONITORING)


def test_what_it_does_is_shown_with_the_step(report):
    command = saying({"detail": "compiled [3] of 7"}, {"ready": CORE}, {"ready": MONITORING})
    with Background("local", GROUPS, report.progress, command=command) as running:
        running.wait(MONITORING)
    assert "    programs: compiled [3] of 7\n" in report.text


def test_how_much_is_done_is_reported_for_estimates(report):
    shares = []
    command = saying({"group": CORE, "share": 0.25}, {"ready": CORE}, then="signal.pause()")
    with Background(
        "local", GROUPS, report.progress, on_share=lambda *words: shares.append(words), command=command
    ) as running:
        running.wait(CORE)
    assert shares == [(CORE, 0.25), (CORE, 1.0)]


def test_a_failure_is_shown_at_once_and_raised_where_it_is_waited_for(report):
    command = saying({"ready": CORE}, {"error": "no Go module proxy\nFix: GOPROXY"})
    with Background("local", GROUPS, report.progress, command=command) as running:
        running.wait(CORE)
        with pytest.raises(ToolchainError, match=r"(?s)no Go module proxy.*Fix: GOPROXY"):
            running.wait(MONITORING)
        running.wait(CORE)  # what was there before is there still
    assert "programs: failed: no Go module proxy\n" in report.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("events", "then"),
    [
        ([{"ready": CORE}], "sys.exit('Traceback: a mistake of ours')"),
        ([{"ready": CORE}, {"what": "is this"}], "signal.pause()"),
    ],
    ids=["it ends", "nobody understands it"],
)
def test_one_that_does_not_say_what_happened_is_a_failure(report, own_folders, events, then):
    running = Background("local", GROUPS, report.progress, command=saying(*events, then=then))
    with running, pytest.raises(ToolchainError, match=r"ended before it was done; its log: .*toolchain\.log"):
        running.wait(MONITORING)
    assert ("a mistake of ours" in (own_folders / "logs" / "toolchain.log").read_text()) is ("exit" in then)


def test_where_nothing_is_missing_no_process_is_started(report):
    with Background("local", [], report.progress, command=["/no/such/program"]) as running:
        for group in GROUPS:
            running.wait(group)
            assert running.is_ready(group)


def test_at_the_end_of_the_block_everything_that_it_started_is_gone(report, tmp_path):
    script = textwrap.dedent(f"""
        import subprocess
        compiler = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
        with open({str(tmp_path / "compiler")!r}, "w") as file:
            file.write(str(compiler.pid))
        print('{{"ready": "core"}}', flush=True)
        signal.pause()
    """)
    running = Background("local", GROUPS, report.progress, command=saying(then=script))
    with running:
        running.wait(CORE)
    until_ended(int((tmp_path / "compiler").read_text()))


@pytest.fixture
def events(monkeypatch):
    reported = []
    monkeypatch.setattr(background, "tell", reported.append)
    return reported


def test_groups_are_got_in_order_and_each_is_reported(monkeypatch, events):
    def get(_, groups, report):
        report.detail(f"getting {groups[0]}")
        report.advance(1, 4)

    monkeypatch.setattr(background, "get", get)
    assert background.get_all(parse_settings({})) == 0
    assert events == [
        event
        for group in GROUPS
        for event in ({"detail": f"getting {group}"}, {"group": group, "share": 0.25}, {"ready": group})
    ]


def test_after_a_failure_nothing_more_is_got(monkeypatch, events):
    def fail(*_):
        raise ToolchainError("compilation failed")

    monkeypatch.setattr(background, "get", fail)
    assert background.get_all(parse_settings({})) == 1
    assert events == [{"error": "compilation failed"}]


def test_it_steps_aside_for_everything_else(monkeypatch):
    lowered = []
    monkeypatch.setattr(background.os, "nice", lowered.append)
    monkeypatch.setattr(background, "end_with", lowered.append)
    monkeypatch.setattr(background, "get_all", lambda _: 0)
    assert background.main("local", str(os.getpid())) == 0
    assert lowered == [os.getpid(), 10]
