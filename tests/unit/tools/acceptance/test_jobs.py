"""The end of a job of an acceptance run."""

from types import SimpleNamespace

import pytest

from tools.acceptance.findings import Findings, StepFailedError
from tools.acceptance.jobs import Jobs


def jobs_of(kubectl, tmp_path, stack="dev"):
    """Return the jobs of a run that looks only once whether one has ended."""

    def wait(look, what, seconds):
        if not (ended := look()):
            raise StepFailedError(f"{what}: not within {seconds:.0f} s")
        return ended

    place = SimpleNamespace(
        stack=stack,
        folder=tmp_path,
        engine=SimpleNamespace(pulumi="pulumi"),
        settings=SimpleNamespace(namespace="athanor"),
        kubectl=kubectl,
        wait=wait,
    )
    return Jobs(place)


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("Failed", "job probe-1 is Failed"),
        # What Volcano calls a job of several pods whose program failed.
        ("Terminated", "job probe-1 is Failed"),
        ("Aborted", "job probe-1 is Aborted"),
        ("Terminating", "the end of job probe-1: not within 5 s"),
        ("Running", "the end of job probe-1: not within 5 s"),
    ],
)
def test_a_job_that_ended_badly_is_not_waited_for(kubectl, fake_program, tmp_path, phase, said):
    fake_program.answer("get jobs.batch.volcano.sh probe-1", phase)
    fake_program.answer("logs", "no GPU here")
    with pytest.raises(StepFailedError, match=said):
        jobs_of(kubectl, tmp_path).completed("probe-1", Findings(), 5)


def test_the_log_of_a_completed_job_is_returned(kubectl, fake_program, tmp_path):
    fake_program.answer("get jobs.batch.volcano.sh probe-1", "Completed")
    fake_program.answer("logs", "41 TFLOPS")
    assert jobs_of(kubectl, tmp_path).completed("probe-1", Findings(), 5) == "41 TFLOPS"
