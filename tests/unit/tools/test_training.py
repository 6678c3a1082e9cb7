"""Following a job: it ends well, ends badly, or says something new."""

from __future__ import annotations

import json

import pytest

from tools import training
from tools.process import CommandError
from tools.training import TrainingError, exported_model, wait_for_job

JOB = "digits-training-0123abcd"
PHASE = f"get jobs.batch.volcano.sh {JOB} -n athanor"
WORDS = f"logs {JOB}-worker-0 -n athanor -c worker"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(training, "_POLL_SECONDS", 0)


def test_it_returns_when_the_job_has_completed(kubectl, fake_program, report):
    for phase in ("", "Pending", "Running", "Running"):
        fake_program.answer(PHASE, phase, once=True)
    fake_program.answer(PHASE, "Completed")
    fake_program.answer(WORDS, stderr="container is waiting to start", status=1, once=True)
    fake_program.answer(WORDS, "epoch 1 [loss 0.5]\n")
    wait_for_job(kubectl, "athanor", JOB, report.progress)
    assert "accepted — pods are starting" in report.text
    assert "Pending — epoch 1 [loss 0.5]" in report.text
    assert report.text.count("Running — epoch 1 [loss 0.5]") == 1, "the same words are shown once"


@pytest.mark.parametrize("phase", ["Failed", "Aborted", "Terminated"])
def test_a_job_that_ends_badly_is_an_error_with_its_last_words(kubectl, fake_program, report, phase):
    fake_program.answer(PHASE, phase)
    fake_program.answer(WORDS, "ValueError: no data\n")
    with pytest.raises(TrainingError) as caught:
        wait_for_job(kubectl, "athanor", JOB, report.progress)
    assert phase in str(caught.value)
    assert "ValueError: no data" in str(caught.value)
    assert "make why JOB=digits-training`" in str(caught.value)
    assert "make logs JOB=digits-training`" in str(caught.value)


def test_a_job_that_is_not_there_is_an_error(kubectl, fake_program, report):
    fake_program.answer(PHASE, stderr="NotFound", status=1)
    with pytest.raises(CommandError, match="NotFound"):
        wait_for_job(kubectl, "athanor", JOB, report.progress)


def test_long_words_are_cut(kubectl, fake_program, report):
    fake_program.answer(PHASE, "Running", once=True)
    fake_program.answer(PHASE, "Completed")
    fake_program.answer(WORDS, 5000 * "x")
    wait_for_job(kubectl, "athanor", JOB, report.progress)
    assert "x" * 100 in report.text
    assert report.text.count("x") < 200


def test_the_exported_model_is_read_through_the_service(kubectl, fake_program):
    manifest = {"accuracy": 0.98, "torch_version": "2.15.0", "other": 1}
    fake_program.answer(
        "exec -n athanor deployment/digits -- cat /data/output/models/digits/3/manifest.json", json.dumps(manifest)
    )
    model = exported_model(kubectl, "athanor", "digits", "digits", "3")
    assert (model.version, model.accuracy, model.torch_version) == ("3", 0.98, "2.15.0")
