import importlib.metadata

import pytest

from tools.paths import REPOSITORY
from trainer.image import install
from trainer.image.variant import requirements_for

PINS = ["# comment", "", "numpy==2.4.6", "nvidia-cublas==13.4.1.3", "nvidia-cuda-runtime==13.2.86", "torch==2.15.0"]


def names(pins):
    return [pin.partition("==")[0] for pin in pins]


def test_gpu_variant_has_every_pin():
    assert names(requirements_for("gpu", PINS)) == ["numpy", "nvidia-cublas", "nvidia-cuda-runtime", "torch"]


def test_cpu_variant_leaves_out_what_only_a_gpu_needs():
    assert names(requirements_for("cpu", PINS)) == ["numpy", "nvidia-cuda-runtime", "torch"]


@pytest.mark.parametrize("pin", ["triton==3.9.0", "cuda-bindings==13.5.0", "NVIDIA_nccl-cu13==2.30.7 ; x == 'y'"])
def test_gpu_packages_are_known_however_they_are_spelt(pin):
    assert requirements_for("cpu", [pin]) == []


@pytest.mark.parametrize("pin", ["tritonclient==2.73.0", "tritonclient[grpc]==2.73.0", "nvidia-cuda-cupti==13.2.86"])
def test_packages_of_similar_names_stay(pin):
    assert requirements_for("cpu", [pin]) == [pin]


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="'tpu'"):
        requirements_for("tpu", PINS)


def test_pinned_requirements_of_the_cpu_variant_hold_torch_and_no_big_gpu_package():
    lines = (REPOSITORY / "trainer" / "requirements.txt").read_text().splitlines()
    kept = set(names(requirements_for("cpu", lines)))
    assert {"torch", "numpy", "scikit-learn", "uvicorn"} <= kept
    assert {name for name in kept if name.startswith(("nvidia", "cuda"))} == {
        "nvidia-cuda-runtime",
        "nvidia-cuda-cupti",
    }


def test_only_packages_of_another_version_are_missing():
    installed = importlib.metadata.version("numpy")
    assert install.missing([f"numpy=={installed}", "numpy==0.0.1", "no-such-package==1"]) == [
        "numpy==0.0.1",
        "no-such-package==1",
    ]


@pytest.fixture
def commands(monkeypatch):
    """Record the programs that the installation runs, instead of running them."""
    run = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: run.append(command))
    monkeypatch.setattr(install, "write_stand_ins", lambda folder: run.append(["stand-ins", folder.name]))
    return run


def test_installation_takes_no_dependencies_beyond_the_pins(commands, tmp_path):
    (tmp_path / "pins.txt").write_text("no-such-package==1\nnvidia-cublas==0\n")
    install.main(["--variant", "cpu", str(tmp_path / "pins.txt")])
    pip, stand_ins, check = commands
    assert "--no-deps" in pip
    assert pip[-1] == "no-such-package==1"
    assert stand_ins[0] == "stand-ins"
    assert "import torch" in check[-1]


def test_complete_base_needs_no_network(commands, tmp_path):
    (tmp_path / "pins.txt").write_text(f"numpy=={importlib.metadata.version('numpy')}\n")
    install.main(["--variant", "gpu", str(tmp_path / "pins.txt")])
    (check,) = commands
    assert "import torch" in check[-1]
