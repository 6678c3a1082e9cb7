"""What a pod reports of its machine, on one without a GPU: every figure that is there, and why torch sees none."""

from __future__ import annotations

import importlib
import json
import resource

import pytest
import torch

from trainer.helpers import hardware


def test_it_prints_one_line_with_what_the_machine_has(capsys):
    hardware.main(["--busy_seconds", "0"])
    [line] = capsys.readouterr().out.splitlines()
    report = json.loads(line)[hardware.KEY]
    assert report["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert report["shared_memory_bytes"] > 0
    assert "lo" in report["interfaces"]
    assert report["torch"]["version"] == torch.__version__


@pytest.mark.skipif(torch.cuda.is_available(), reason="what torch says where there is no GPU")
def test_without_a_gpu_it_says_why():
    report = hardware.hardware()["torch"]
    assert report["gpus"] == []
    assert "driver" in report["error"]


def test_without_torch_there_is_still_a_machine(monkeypatch):
    def no_torch(_):
        raise ImportError

    monkeypatch.setattr(importlib, "import_module", no_torch)
    report = hardware.hardware()
    assert report["torch"] is None
    assert report["kernel"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_measured():
    [first, *_] = hardware.hardware(busy_seconds=1)["torch"]["gpus"]
    assert first["teraflops_bfloat16"] > 1
