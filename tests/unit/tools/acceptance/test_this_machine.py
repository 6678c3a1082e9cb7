"""What the acceptance run makes of a hardware check."""

import json

import pytest

from tools.acceptance.findings import Findings, StepFailedError
from tools.acceptance.steps import this_machine
from tools.acceptance.steps.this_machine import judge
from tools.process import CommandError
from trainer.common import command_line
from trainer.hardware_check import report
from trainer.hardware_check.__main__ import HardwareCheckConfig
from trainer.hardware_check.steps import Result


def said(*results: Result) -> str:
    content = report.document(results, date="today", minutes=8, torch_version="2.15")
    return f"done  The machine\n{json.dumps({report.KEY: content})}\n"


def test_figures_and_reasons_are_noted_and_a_failure_fails_the_step():
    findings = Findings()
    done = Result(name="a", title="Speed", outcome="done", figures={"mfu": 0.4})
    skipped = Result(name="b", title="Two GPUs", outcome="skipped", reason="one GPU")
    judge(findings, said(done, skipped), fix="")
    assert findings.figures == {"Speed": "{'mfu': 0.4}", "Two GPUs": "skipped: one GPU"}
    failed = Result(name="c", title="Checkpoint", outcome="failed", reason="3 values differ")
    with pytest.raises(StepFailedError, match="Checkpoint: 3 values differ"):
        judge(findings, said(done, failed), fix="")


def test_a_check_that_did_not_run_is_not_taken_for_a_good_one():
    with pytest.raises(StepFailedError, match="printed no report"):
        judge(Findings(), "No module named torch", fix="")


def test_the_run_does_every_step_of_the_hardware_check(monkeypatch):
    asked = []

    def run(words, **_options):
        asked.append(list(map(str, words)))
        if words[0] == "nvidia-smi":
            return "GPU 0: NVIDIA A10 (UUID: GPU-1)"
        failed = Result(name="network", title="All-reduce", outcome="failed", reason="0 GB/s")
        # The check ends with status 1 after its report.
        raise CommandError(words, 1, said(failed), None)

    monkeypatch.setattr(this_machine, "run", run)
    with pytest.raises(StepFailedError, match="All-reduce: 0 GB/s"):
        this_machine.this_machine(None, Findings())
    [_, words] = asked
    assert words[1:3] == ["-m", "trainer.hardware_check"]
    config = command_line.parse(HardwareCheckConfig, "trainer.hardware_check", words[3:])
    assert (config.steps, config.minutes) == ((), 8), "all of them"
