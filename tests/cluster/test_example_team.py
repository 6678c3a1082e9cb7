"""examples/team by its README: an installed package, a kubeconfig with limited rights, no import from a clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tritonclient.http as triton

from athanor.inspection.jobs import job_phase
from tests.fixtures.example import Example, token_of
from tests.waiting import KUBECTL_TIMEOUT, wait_until
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone

JOBS = {"team-training", "team-mpi"}


@pytest.fixture(scope="module")
def example(served: Clone) -> Example:
    return Example(clone=served, name="team")


def can(example: Example, words: str) -> bool:
    """Tell whether the API server lets the team do something."""
    return example.shell(f"kubectl --kubeconfig team.kubeconfig auth can-i {words} || true").strip().endswith("yes")


@pytest.fixture(scope="module")
def declared(served: Clone, example: Example) -> Iterator[str]:
    """What `pulumi up` printed; the team's stack is destroyed with the team's rights, too."""
    for heading in ("Once per team, by the platform's engineer", "Once per copy"):
        example.shell(example.commands(heading))
    try:
        yield example.shell("pulumi up --yes --non-interactive")
    finally:
        example.shell("pulumi destroy --yes --non-interactive && pulumi stack rm --yes")
        left = [job["metadata"]["name"] for job in served.objects("jobs") if job["metadata"]["name"].startswith("team")]
        assert left == []


@pytest.mark.usefixtures("declared")
def test_both_jobs_complete(served: Clone) -> None:
    def phases() -> dict[str, str]:
        jobs = served.objects("jobs")
        named = {job["metadata"]["labels"]["athanor.dev/job"]: job for job in jobs}
        return {name: job_phase(named[name]) for name in JOBS & set(named)}

    def ended() -> bool:
        return phases().keys() == JOBS and all(phase in {"Completed", "Failed"} for phase in phases().values())

    wait_until(
        ended,
        lambda: str(phases()),
        moves=lambda: {pod["metadata"]["resourceVersion"] for pod in served.objects("pods")},
    )
    assert phases() == dict.fromkeys(JOBS, "Completed"), served.make("why", "JOB=team-training", check=False)


@pytest.mark.usefixtures("declared")
def test_the_service_answers_with_the_model_of_the_first(served: Clone) -> None:
    served.kubectl("rollout", "status", "deployment/team-digits", "-n", "athanor", KUBECTL_TIMEOUT)
    address = served.object("services", "team-digits")["spec"]["clusterIP"]
    held_out = digits.from_source("held_out")
    tensor = triton.InferInput("image", [1, *held_out.images.shape[1:]], "FP32")
    tensor.set_data_from_numpy(held_out.images[:1])
    with triton.InferenceServerClient(f"{address}:8000") as client:
        assert client.infer("team-digits", [tensor]).get_response()["model_name"] == "team-digits"


@pytest.mark.usefixtures("declared")
def test_a_second_preview_shows_no_change(example: Example) -> None:
    example.shell("pulumi preview --non-interactive --expect-no-changes")


@pytest.mark.usefixtures("declared")
def test_its_credentials_reach_nothing_else(example: Example) -> None:
    words = ("get secrets", "create pods", "delete namespaces", "list nodes", "get jobs.batch.volcano.sh -n default")
    answers = {word: can(example, word) for word in words}
    assert answers == dict.fromkeys(words, False)
    assert can(example, "create jobs.batch.volcano.sh")


@pytest.mark.usefixtures("declared")
def test_no_credential_is_in_clear_in_what_the_engine_keeps(example: Example) -> None:
    token, stored = token_of(example.folder / "team.kubeconfig"), example.stored()
    assert token not in stored
    assert token.rpartition(".")[2] not in stored
