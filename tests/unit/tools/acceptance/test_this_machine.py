"""What the acceptance run makes of a hardware check."""

from __future__ import annotations

import json

import pytest

from tools.acceptance.findings import Findings, StepFailedError
from tools.acceptance.steps.this_machine import judge
from trainer.hardware_check import report
from trainer.hardware_check.steps import Result


def said(*results: Result) -> str:
    content = report.document(results, date="today", minutes=8, torch_version="2.15")
    return f"done  The machine\n{json.dumps({report.KEY: content})}\n"


def test_figures_and_reasons_are_noted_and_a_failure_fails_the_step():
    findings = Findings()
    done = Result(name="a", title="Speed", outcome="done", figures={"mfu": 0.4})
    skipped = Result(name="b", title="Two GPUs", outcome="skipped", reason="one GPU")
    judge(findings, said(done, skipped))
    assert findings.figures == {"Speed": "{'mfu': 0.4}", "Two GPUs": "skipped: one GPU"}
    failed = Result(name="c", title="Checkpoint", outcome="failed", reason="3 values differ")
    with pytest.raises(StepFailedError, match="Checkpoint: 3 values differ"):
        judge(findings, said(done, failed))


def test_a_check_that_did_not_run_is_not_taken_for_a_good_one():
    with pytest.raises(StepFailedError, match="printed no report"):
        judge(Findings(), "No module named torch")
