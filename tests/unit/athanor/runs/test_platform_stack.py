"""The platform of a stack, for commands that need its volumes and start no engine program of their own."""

from __future__ import annotations

import json

import pytest

from athanor.command_line import parser
from athanor.runs import command
from athanor.runs.command import outputs_of_stack
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs

OUTPUTS = {
    "contract_version": 1, "namespace": "team", "queue": "training", "data_claim": "data", "output_claim": "output",
    "trainer_image": "trainer:1",
}  # fmt: skip


@pytest.fixture
def pulumi(tmp_path, monkeypatch):
    """A pulumi that is a script of the test, and a backend."""

    def says(script: str) -> None:
        (tmp_path / "pulumi").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\n{script}\n', encoding="utf-8")
        (tmp_path / "pulumi").chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(command, "engine_variables", dict)
    return says


def test_the_outputs_of_a_stack_are_those_of_its_platform(pulumi, tmp_path):
    pulumi(f"echo '{json.dumps(OUTPUTS)}'")
    assert outputs_of_stack("organization/athanor/prod") == PlatformOutputs.parse(OUTPUTS)
    words = (tmp_path / "words").read_text(encoding="utf-8").split()
    assert words[:3] == ["stack", "output", "--json"]
    assert words[-2:] == ["--stack", "organization/athanor/prod"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo \"error: no stack named 'x' found\" >&2; exit 6", "cannot be read: no stack named 'x' found. Fix: name"),
        ("exit 3", "cannot be read: pulumi ended with 3"),
        ("echo '{}'", "outputs of stack x = []: lack namespace"),
        ("echo '[]'", "outputs of stack x = []: are not outputs by their names"),
        ("echo nothing", "cannot be read: pulumi wrote no JSON"),
        ("exec sleep 60", "was not read in 0.2 s"),
    ],
)
def test_outputs_that_are_not_a_platforms_are_refused(pulumi, monkeypatch, script, message):
    monkeypatch.setattr(command, "_ENGINE_SECONDS", 0.2 if "sleep" in script else 60)
    pulumi(script)
    with pytest.raises(RefusalError) as refusal:
        outputs_of_stack("x")
    assert message in str(refusal.value)


class Cluster:
    """A cluster whose platform may not be asked for: the command line names another."""

    def within(self, namespace):
        return namespace


@pytest.mark.parametrize("words", [["copy", "data:a", "."], ["tensorboard", "train-1"]])
def test_what_needs_the_volumes_takes_the_platform_of_a_stack(monkeypatch, words, pulumi):
    pulumi(f"echo '{json.dumps(OUTPUTS)}'")
    used = []
    done = {"path": "a"}
    monkeypatch.setattr(command, "run_copy", lambda where, platform, _: used.append((where, platform)) or done)
    monkeypatch.setattr(command, "show", lambda where, platform, *_: used.append((where, platform)) or 0)
    monkeypatch.setattr(command, "locate", lambda *_: (None, "train-1-abc"))
    monkeypatch.setattr(command, "folder_of", lambda *_: "train-1-abc")
    arguments = parser().parse_args([*words, "--platform", "organization/athanor/prod"])
    assert command._COMMANDS[words[0]](arguments, Cluster()) == 0
    assert used == [("team", PlatformOutputs.parse(OUTPUTS))]
