"""Following a job: it ends well, ends badly, or says something new."""

import json

import pytest

from athanor.runs import overlooked
from tools.local_environment import training_job
from tools.local_environment.training_job import ModelFile, TrainingError, exported_model, wait_for_job
from tools.process import CommandError

JOB = "digits-training-0123abcd"
PHASE = f"get jobs.batch.volcano.sh {JOB} -n athanor"
WORDS = f"logs {JOB}-worker-0 -n athanor -c worker"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(training_job, "_POLL_SECONDS", 0)


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


def test_volcanos_controller_is_reminded_of_a_job_that_it_has_overlooked(kubectl, fake_program, report, monkeypatch):
    monkeypatch.setattr(overlooked, "_FIRST_SECONDS", 0.0)
    fake_program.answer(f"{PHASE} -o jsonpath", "Pending", once=True)
    fake_program.answer(f"{PHASE} -o jsonpath", "Completed")
    fake_program.answer(WORDS, stderr="not found", status=1)
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": JOB, "uid": "u"}}
    fake_program.answer(
        f"{PHASE} --ignore-not-found", json.dumps({**manifest, "status": {"state": {"phase": "Pending"}}})
    )
    fake_program.answer("get podgroups.scheduling.volcano.sh", json.dumps({"status": {"phase": "Inqueue"}}))
    fake_program.answer("get pods -n athanor", json.dumps({"items": []}))
    fake_program.answer("create -n athanor -f", "")
    wait_for_job(kubectl, "athanor", JOB, report.progress)
    assert "has been reminded of it" in report.text


def test_it_returns_when_the_model_is_exported_to_who_wants_no_more(kubectl, fake_program, report):
    fake_program.answer(PHASE, "Running")
    fake_program.answer(WORDS, '{"event": "step"}\n', once=True)
    fake_program.answer(WORDS, "[1, 2]\n", once=True)
    fake_program.answer(WORDS, '{"event": "finished", "time": "t", "level": "info", "message": "finished step=9"}\n')
    wait_for_job(kubectl, "athanor", JOB, report.progress, until_exported=True)
    assert "finished step=9" in report.text


@pytest.mark.parametrize("phase", ["Failed", "Aborted", "Terminated"])
def test_a_job_that_ends_badly_is_an_error_with_its_last_words(kubectl, fake_program, report, phase):
    fake_program.answer(PHASE, phase)
    fake_program.answer(WORDS, "\x1b[2J\x1b]0;title\x07ValueError: no \x9bdata\n")
    with pytest.raises(TrainingError) as caught:
        wait_for_job(kubectl, "athanor", JOB, report.progress)
    state = "Failed" if phase == "Terminated" else phase
    assert f"is {state} — ValueError: no \\x9bdata. See" in str(caught.value)
    assert "make why JOB=digits-training`" in str(caught.value)
    assert "make logs JOB=digits-training`" in str(caught.value)


def test_a_job_that_is_not_there_is_an_error(kubectl, fake_program, report):
    fake_program.answer(PHASE, stderr="NotFound", status=1)
    with pytest.raises(CommandError, match="NotFound"):
        wait_for_job(kubectl, "athanor", JOB, report.progress)


@pytest.mark.parametrize(
    ("words", "begin", "most"),
    [
        pytest.param(5000 * "x", 100 * "x", 200, id="long words are cut"),
        pytest.param(20 * "seconds=7.272e-05 ", "seconds=7.272e-05 …", 400, id="between numbers"),
        pytest.param("\x1b[2Jgone\x1b]0;title\x07 \x9b1m\n", "gone \\x9b1m", 100, id="and do not move the cursor"),
    ],
)
def test_words_of_a_pod_only_show_their_begin(*, kubectl, fake_program, report, words, begin, most):
    fake_program.answer(PHASE, "Running", once=True)
    fake_program.answer(PHASE, "Completed")
    fake_program.answer(WORDS, words)
    wait_for_job(kubectl, "athanor", JOB, report.progress)
    assert begin in " ".join(report.text.split())
    assert len(report.text) < most
    assert not {"\x1b", "\x9b"} & set(report.text)


def test_the_exported_model_is_read_through_the_service(kubectl, fake_program):
    variants = {"int8": {"accuracy": 0.97, "size_bytes": 30, "latency_ms": {}}}
    manifest = {"accuracy": 0.98, "torch_version": "2.15.0", "other": 1, "size_bytes": 70, "variants": variants}
    fake_program.answer(
        "exec -n athanor deployment/digits -- cat /data/output/models/digits/3/manifest.json", json.dumps(manifest)
    )
    model = exported_model(kubectl, "athanor", "digits", "digits", "3")
    assert (model.version, model.torch_version) == ("3", "2.15.0")
    assert model.file == ModelFile(accuracy=0.98, size_bytes=70)
    assert model.variants == {"int8": ModelFile(accuracy=0.97, size_bytes=30)}
