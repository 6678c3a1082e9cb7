"""How the program that --print-program prints finds its platform; test_description.py has the jobs that it declares."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from athanor.command_line import parser
from athanor.run import command
from athanor.run.description import describe
from athanor.run.program_text import program_in_cluster
from athanor.runs.cluster import Cluster

CLUSTER = Cluster(where=(), context="dev", namespace="ml", server="https://192.0.2.1:6443")


@pytest.fixture(autouse=True)
def _in_a_folder_with_code(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("print(1)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        ("--platform organization/athanor/prod", "Platform.from_stack('organization/athanor/prod', cluster)"),
        ("", "Platform.from_cluster('ml', cluster)"),
        ("--namespace other", "Platform.from_cluster('ml', cluster)"),
    ],
)
def test_the_printed_program_finds_the_platform_as_the_command_does(monkeypatch, capsys, words, reference):
    class OwnCluster(Cluster):
        def platform(self) -> SimpleNamespace:
            return SimpleNamespace(namespace="ml")

    cluster = OwnCluster(where=(), context="dev", namespace="default", server="https://192.0.2.1:6443")
    monkeypatch.setattr(command, "Cluster", SimpleNamespace(of=lambda _: cluster))
    assert command.run(parser().parse_args(["run", "--print-program", *words.split(), "--", "python", "train.py"])) == 0
    text = capsys.readouterr().out
    compile(text, "printed", "exec")
    assert reference in text
    assert ("context='dev', cluster_identifier='https://192.0.2.1:6443'" in text) == ("from_cluster" in reference)
    assert ("import pulumi\n" in text) == ("from_stack" in reference)


def test_the_printed_program_names_a_kubeconfig_that_was_given(tmp_path):
    described = describe(parser().parse_args(["run", "--", "python", "train.py"]))
    assert f"by $KUBECONFIG, which must be {tmp_path}/dev.yaml;" in program_in_cluster(described, CLUSTER, "dev.yaml")
