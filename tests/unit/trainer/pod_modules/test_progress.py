"""Progress of a program in a pod: its lines, the metrics for Prometheus, and that it stops no training."""

from __future__ import annotations

import ast
import io
import json
import math
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from infra.run_module import run_module_manifest
from tests.ports import held_port
from workloads.any_image import in_named_directory


@pytest.fixture
def module(start):
    return start("athanor_progress")


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class Tensor:
    """As torch's: a number of its own."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Vector:
    def __float__(self) -> float:
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")


def test_a_step_is_a_line(module, capsys):
    module.report(step=3, total_steps=10, loss=Tensor(0.5), accuracy=1)
    module.report(4, loss=math.nan, speed=math.inf)
    assert lines(capsys) == [
        {"step": 3, "total_steps": 10, "loss": 0.5, "accuracy": 1.0},
        {"step": 4, "loss": None, "speed": None},
    ]


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK"])
def test_only_the_first_rank_prints(module, capsys, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    module.report(step=1, loss=1.0)
    monkeypatch.setenv(variable, "0")
    module.report(step=2, loss=1.0)
    assert [line["step"] for line in lines(capsys)] == [2]


def test_time_left_begins_again_when_a_run_goes_back_to_a_checkpoint(module):
    module.report(step=100, total_steps=200)
    module.report(step=50, total_steps=200)
    assert "seconds_left" not in module._PROGRESS.numbers
    module.report(step=51, total_steps=200)
    assert module._PROGRESS.numbers["seconds_left"] > 0


def test_a_closed_output_stops_nothing(module, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    module.report(step=1, loss=1)


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ({"loss": "0.5"}, TypeError),
        ({"loss": True}, TypeError),
        ({"loss": None}, TypeError),
        ({"loss": Vector()}, TypeError),
        ({"a b": 1}, ValueError),
        ({f"n{number}": number for number in range(101)}, ValueError),
    ],
)
def test_what_is_not_a_number_is_named(module, capsys, numbers, error):
    with pytest.raises(error, match=r"report: (loss|'a b'|more than 100 names)"):
        module.report(step=1, **numbers)
    assert lines(capsys) == []


def metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


@pytest.fixture
def port():
    with held_port() as port:
        yield port


def test_prometheus_reads_each_rank_at_its_port(module, monkeypatch, port):
    monkeypatch.setenv("ATHANOR_METRICS_PORT", str(port - 1))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("ATHANOR_JOB", 'a"b')
    module.report(step=1, total_steps=11, loss=0.5)
    module.report(step=2, total_steps=11, loss=math.nan)
    module.saved()
    read = metrics(port)
    assert read["athanor_training_step"] == 2
    assert math.isnan(read["athanor_training_loss"])
    assert 0 <= read["athanor_training_checkpoint_age_seconds"] < 60
    assert read["athanor_training_last_step_timestamp_seconds"] > 1e9
    assert read["athanor_training_seconds_left"] >= 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert 'athanor_training_step{run="a\\"b",rank="5"} 2' in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=30)


@pytest.mark.parametrize("port", ["nonsense", "70000", "-5"])
def test_a_port_that_cannot_be_had_stops_nothing(module, monkeypatch, capsys, port):
    monkeypatch.setenv("ATHANOR_METRICS_PORT", port)
    module.report(step=1, loss=1)
    assert len(lines(capsys)) == 1


def test_a_port_of_the_programs_own_stays_its_own(module, monkeypatch, capsys):
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setenv("ATHANOR_METRICS_PORT", str(taken.getsockname()[1]))
        module.report(step=1, loss=1)
    assert len(lines(capsys)) == 1


def test_hyperparameters_are_a_line_that_comes_again(module, capsys, monkeypatch):
    monkeypatch.setattr(module, "_LINES_BETWEEN_SETTINGS", 2)
    module.hyperparameters({"lr": 0.1, "model": {"width": 64, "act": "gelu"}, "path": module.re, "none": None})
    for step in range(1, 4):
        module.report(step=step, loss=1)
    said = {"lr": 0.1, "model.width": 64, "model.act": "gelu", "path": str(module.re), "none": None}
    assert [line.get("hyperparameters", line.get("step")) for line in lines(capsys)] == [said, 1, said, 2, 3]


def test_a_program_imports_them_after_what_its_image_has(tmp_path):
    """The command in front of every program, with the ConfigMap's content where the pod mounts it."""
    content = run_module_manifest("team")["data"]
    (tmp_path / "mounted").mkdir()
    for name, text in content.items():
        (tmp_path / "mounted" / name).write_text(text)
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "own.py").write_text("")
    words = [word.replace("/etc/athanor/python", str(tmp_path / "mounted")) for word in in_named_directory()]
    program = (
        "import own, sys; from athanor_run import report; import athanor_frameworks; report(step=1, loss=0.5);"
        "print(sys.path[1:3]); print({'torch', 'numpy', 'transformers', 'lightning', 'accelerate'} & set(sys.modules))"
    )
    done = subprocess.run(
        [*words, sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "image")},
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == '{"step": 1, "loss": 0.5}'
    assert done.stdout.splitlines()[1] == str([str(tmp_path / "image"), str(tmp_path / "mounted")])
    assert done.stdout.splitlines()[2] == "set()"


def test_they_are_modules_of_python_3_8():
    for name, text in run_module_manifest("team")["data"].items():
        tree = ast.parse(text, name, feature_version=(3, 8))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        outside = {each.partition(".")[0] for each in imported} - sys.stdlib_module_names
        assert {each for each in outside if not each.startswith("athanor_")} == set(), name
