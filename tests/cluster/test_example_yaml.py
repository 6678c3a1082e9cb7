"""examples/yaml by its README: a program in YAML, with the package that the engine starts from `provider/`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.example import Example, team_kubeconfig, token_of
from tests.waiting import KUBECTL_TIMEOUT, wait_until
from tools.toolchain import ensure
from tools.toolchain.catalogue import YAML_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone


@pytest.fixture(scope="module")
def example(served: Clone) -> Example:
    """The folder, with access to the cluster as the team's README creates it."""
    team_kubeconfig(served)
    return Example(clone=served, name="yaml", path=(ensure([YAML_HOST])[YAML_HOST].parent,))


@pytest.fixture(scope="module")
def added(example: Example) -> str:
    """What `pulumi package add` and the commands after it printed."""
    return example.shell(example.commands("Once per copy"))


@pytest.fixture(scope="module")
def declared(served: Clone, example: Example, added: str) -> Iterator[str]:
    """What `pulumi up` printed."""
    assert "Added package athanor" in added
    try:
        yield example.shell("pulumi up --yes --non-interactive")
    finally:
        example.shell("pulumi destroy --yes --non-interactive && pulumi stack rm --yes")
        left = [job["metadata"]["name"] for job in served.objects("jobs") if job["metadata"]["name"].startswith("yaml")]
        assert left == []


@pytest.mark.usefixtures("declared")
def test_its_job_completes_and_its_service_gets_the_model(served: Clone) -> None:
    def phase() -> str:
        [job] = served.objects("jobs", "athanor.dev/job=yaml-training")
        return job.get("status", {}).get("state", {}).get("phase", "")

    wait_until(
        lambda: phase() in {"Completed", "Failed"},
        phase,
        moves=lambda: {pod["metadata"]["resourceVersion"] for pod in served.objects("pods")},
    )
    assert phase() == "Completed", served.make("why", "JOB=yaml-training", check=False)
    served.kubectl("rollout", "status", "deployment/yaml-digits", "-n", "athanor", KUBECTL_TIMEOUT)


@pytest.mark.usefixtures("declared")
def test_a_second_preview_shows_no_change(example: Example) -> None:
    example.shell("pulumi preview --non-interactive --expect-no-changes")


@pytest.mark.usefixtures("declared")
def test_outputs_are_those_of_a_python_program(example: Example, served: Clone) -> None:
    outputs = json.loads(example.shell("pulumi stack output --json"))
    [job] = served.objects("jobs", "athanor.dev/job=yaml-training")
    url = "http://yaml-digits.athanor.svc:8000"
    assert outputs == {"training_job": job["metadata"]["name"], "url": url}


@pytest.mark.usefixtures("declared")
def test_no_credential_is_in_clear_in_what_the_engine_keeps(example: Example) -> None:
    token, stored = token_of(example.folder.parent / "team" / "team.kubeconfig"), example.stored()
    assert token not in stored
    assert token.rpartition(".")[2] not in stored


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("workers: 2", "workers: 0", "workers = 0: must be 1 to 1000. Fix: choose a number from 1 to 1000"),
        # known only when the platform is
        (
            "prepare: [",
            "network: {hostNetwork: {}}\n      prepare: [",
            "namespace is at Pod Security level 'restricted'",
        ),
        (
            "kubeconfig: ${kubeconfig}\n      model",
            "model",
            "kubeconfig = None: no Kubernetes provider is passed either",
        ),
    ],
)
def test_a_refusal_is_one_line_in_the_words_of_python(example: Example, right: str, wrong: str, words: str) -> None:
    file = example.folder / "Pulumi.yaml"
    program = file.read_text(encoding="utf-8")
    assert right in program
    try:
        file.write_text(program.replace(right, wrong), encoding="utf-8")
        said = example.shell("pulumi preview --non-interactive 2>&1 || true")
    finally:
        file.write_text(program, encoding="utf-8")
    assert words in said
    assert "Traceback" not in said
    assert "File " not in said
