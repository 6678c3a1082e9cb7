"""Steps run after what they need, none is stopped by another, and the last ones run whatever happens."""

import json

import pytest

from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.journal import Journal
from tools.acceptance.runner import INTERRUPTED, Runner, Step


def nothing(_, __):
    pass


def failing(_, findings):
    findings.figure("found before", 1)
    raise StepFailedError("it is not so")


def broken(_, __):
    raise KeyError("a mistake of ours")


def skipping(_, __):
    raise SkippedError("there is no such pool")


def interrupted(_, __):
    raise KeyboardInterrupt


class Run:
    """A run whose steps are given as functions; what was called is in `calls`."""

    def __init__(self, folder, progress):
        self.runs, self.progress, self.calls, self.written = folder, progress, [], 0

    @property
    def journal(self):
        return Journal.of(self.runs, "dev")

    def step(self, name, run=nothing, **more):
        def called(site, findings):
            self.calls.append(name)
            run(site, findings)

        return Step(name=name, title=name, run=called, **more)

    def go(self, *steps, **more):
        def changed():
            self.written += 1

        self.calls.clear()
        return Runner(steps=steps, site=None, journal=self.journal, report=self.progress, changed=changed, **more).run()

    @property
    def statuses(self):
        return {entry.step: entry.status for entry in self.journal.entries}

    def reason(self, step):
        return self.journal.entry(step).reason


@pytest.fixture
def run(tmp_path, report):
    return Run(tmp_path / "runs", report.progress)


def test_a_failed_step_stops_only_what_needs_it(run):
    run.go(
        run.step("up"),
        run.step("nodes", failing, needs=("up",)),
        run.step("job", needs=("nodes",)),
        run.step("drift", needs=("up",)),
        run.step("destroy", last=True),
    )
    assert run.calls == ["up", "nodes", "drift", "destroy"]
    assert run.statuses == {
        "up": "passed", "nodes": "failed", "job": "skipped", "drift": "passed", "destroy": "passed"
    }  # fmt: skip
    assert run.reason("nodes") == "it is not so"
    assert run.reason("job") == "needs `nodes` (failed)"
    assert run.journal.entry("nodes").findings.figures == {"found before": "1"}


def test_what_needs_a_skipped_step_says_so(run):
    run.go(run.step("grow", skipping), run.step("job", needs=("grow",)))
    assert run.reason("grow") == "there is no such pool"
    assert run.reason("job") == "needs `grow` (skipped)"


def test_a_mistake_of_ours_is_a_failure_with_its_trace_and_destroy_runs(run):
    run.go(run.step("nodes", broken), run.step("destroy", last=True))
    assert run.statuses == {"nodes": "failed", "destroy": "passed"}
    assert "a mistake of ours" in run.journal.entry("nodes").findings.evidence[0].output


def test_a_failure_is_explained(run):
    run.go(run.step("nodes", failing), failure_evidence=lambda findings: findings.saw("kubectl get events", "OOM"))
    assert [one.output for one in run.journal.entry("nodes").findings.evidence] == ["OOM"]


def test_after_an_interruption_nothing_but_the_last_steps_run(run):
    steps = (run.step("up"), run.step("job", interrupted), run.step("network"), run.step("destroy", last=True))
    assert run.go(*steps)
    assert run.calls == ["up", "job", "destroy"]
    assert run.statuses == {"up": "passed", "job": "interrupted", "network": "skipped", "destroy": "passed"}
    assert run.reason("network") == INTERRUPTED


def test_a_second_interruption_ends_the_run_and_is_on_record(run):
    steps = (run.step("up", interrupted), run.step("destroy", interrupted, last=True), run.step("left", last=True))
    with pytest.raises(KeyboardInterrupt):
        run.go(*steps)
    assert run.statuses == {"up": "interrupted", "destroy": "interrupted"}


def test_a_resumed_run_repeats_what_did_not_pass(run):
    def steps(job):
        return (run.step("up"), run.step("job", job), run.step("destroy", last=True))

    run.go(*steps(failing), keep="KEEP=1")
    assert run.statuses == {"up": "passed", "job": "failed", "destroy": "skipped"}
    assert run.reason("destroy") == "KEEP=1"
    run.go(*steps(nothing))
    assert run.calls == ["job", "destroy"]
    assert set(run.statuses.values()) == {"passed"}


def test_a_run_that_had_begun_to_destroy_only_continues_with_that(run):
    def leaving(_, __):
        journal.leave()
        raise StepFailedError("the cloud is busy")

    journal = run.journal
    steps = (run.step("up"), run.step("job", failing))
    Runner(
        steps=(*steps, Step(name="destroy", title="", run=leaving, last=True)),
        site=None, journal=journal, report=run.progress, changed=lambda: None,
    ).run()  # fmt: skip
    run.go(*steps, run.step("more"), run.step("destroy", last=True))
    assert run.calls == ["destroy"]
    assert run.statuses == {"up": "passed", "job": "failed", "destroy": "passed", "more": "skipped"}
    assert "begun to destroy" in run.reason("more")


def test_the_report_is_written_after_every_step(run):
    run.go(run.step("up"), run.step("job", skipping), run.step("destroy", last=True))
    assert run.written == 3


def test_a_killed_run_continues_where_it_ended(run):
    """What a crash leaves: the journal of the steps before it, and nothing of the one under way."""
    run.go(run.step("up"))
    files = list(run.runs.glob("*/run.json"))
    run.go(run.step("up"), run.step("job"))
    assert run.calls == ["job"]
    assert list(run.runs.glob("*/run.json")) == files
    assert json.loads(files[0].read_text())["steps"][0]["step"] == "up"
