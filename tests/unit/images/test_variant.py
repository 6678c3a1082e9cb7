import ast
import importlib.metadata
from types import SimpleNamespace

import pytest

from tools.paths import REPOSITORY
from trainer.image import install
from trainer.image.variant import REQUIREMENTS, requirements_for

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


def test_tensorflow_image_has_the_small_tensorflow_without_gpus_and_the_full_one_with():
    lines = (REPOSITORY / "trainer" / REQUIREMENTS["tensorflow"]).read_text().splitlines()
    on_cpu, on_gpu = (set(names(requirements_for(variant, lines))) for variant in ("cpu", "gpu"))
    assert on_cpu - on_gpu == {"tensorflow-cpu"}
    assert all(name == "tensorflow" or name.startswith("nvidia-") for name in on_gpu - on_cpu)
    assert "nvidia-cudnn-cu12" in on_gpu
    assert not {"torch", "mpi4py"} & on_gpu


def test_both_images_and_the_tests_have_the_same_versions():
    def pins(file):
        lines = (REPOSITORY / file).read_text().splitlines()
        return dict(line.split("==") for line in requirements_for("cpu", lines))

    tested = pins("requirements.txt")
    for file in REQUIREMENTS.values():
        found = pins(f"trainer/{file}")
        assert {name: version for name, version in found.items() if tested.get(name) != version} == {}


def test_nothing_in_the_pytorch_image_imports_what_only_the_tensorflow_image_has():
    """infra.images leaves trainer/tf out of the PyTorch image, so that a change there replaces no PyTorch job."""
    for file in (REPOSITORY / "trainer").rglob("*.py"):
        if "tf" in file.relative_to(REPOSITORY / "trainer").parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in imported if f"{name}.".startswith(("trainer.tf.", "tensorflow."))], file


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """Record the programs that the installation runs, instead of running them; ssh is there."""
    run = []
    monkeypatch.setattr(install, "LINKER_FILE", tmp_path / "openmpi.conf")
    monkeypatch.setattr(install, "shutil", SimpleNamespace(which=lambda _: "/usr/bin/it", rmtree=lambda *_, **__: None))
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: run.append(command))
    monkeypatch.setattr(install, "write_stand_ins", lambda folder: run.append(["stand-ins", folder.name]))
    return run


def _main(tmp_path, framework, variant, pins):
    (tmp_path / REQUIREMENTS[framework]).write_text(pins)
    install.main(["--framework", framework, "--variant", variant, str(tmp_path)])


def test_installation_takes_no_dependencies_beyond_the_pins(commands, tmp_path):
    _main(tmp_path, "pytorch", "cpu", "no-such-package==1\nnvidia-cublas==0\n")
    pip, ldconfig, stand_ins, check = commands
    assert "--no-deps" in pip
    assert pip[-1] == "no-such-package==1"
    assert ldconfig == ["ldconfig"]
    assert stand_ins[0] == "stand-ins"
    assert "import torch" in check[-1]


def test_complete_base_needs_no_network(commands, tmp_path):
    _main(tmp_path, "pytorch", "gpu", f"numpy=={importlib.metadata.version('numpy')}\n")
    _, check = commands
    assert "import torch" in check[-1]


def test_tensorflow_image_is_checked_by_importing_tensorflow_alone(commands, tmp_path):
    _main(tmp_path, "tensorflow", "cpu", f"numpy=={importlib.metadata.version('numpy')}\n")
    (check,) = commands
    assert "import tensorflow" in check[-1]
    assert "torch" not in check[-1]


def test_ssh_is_installed_only_where_it_is_missing(commands, monkeypatch):
    install.install_ssh()
    assert commands == []
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name == "sshd" else "/usr/bin/ssh")
    install.install_ssh()
    update, installed = commands
    assert update == ["apt-get", "update"]
    assert "--no-install-recommends" in installed
    assert installed[-1] == "openssh-server"
    assert "openssh-client" not in installed


def test_loader_is_told_both_folders_of_open_mpi(commands, tmp_path):
    install.register_mpi_libraries(tmp_path / "zz.conf")
    lib, below = (tmp_path / "zz.conf").read_text().splitlines()
    assert below == f"{lib}/openmpi"
    assert commands == [["ldconfig"]]
