"""examples/yaml by its README: a program in YAML, with the package that the engine starts from `provider/`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.example import Example, assert_completed, team_kubeconfig, token_of
from tests.waiting import KUBECTL_TIMEOUT
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
def declared(example: Example, added: str) -> Iterator[str]:
    """What `pulumi up` printed."""
    assert "Added package athanor" in added
    with example.declared() as printed:
        yield printed


@pytest.mark.usefixtures("declared")
def test_its_job_completes_and_its_service_gets_the_model(served: Clone) -> None:
    assert_completed(served, "yaml-training")
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
    said = example.refusal("Pulumi.yaml", right, wrong)
    assert words in said
    assert "Traceback" not in said
    assert "File " not in said
    assert "Unexpected" not in said
