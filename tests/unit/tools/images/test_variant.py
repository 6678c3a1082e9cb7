import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tables import each_row
from tools.paths import REPOSITORY
from trainer.image import debian, install
from trainer.image.variant import REQUIREMENTS, requirements_for

PINS = ["# comment", "", "numpy==2.4.6", "nvidia-cublas==13.4.1.3", "nvidia-cuda-runtime==13.2.86", "torch==2.15.0"]


def names(pins):
    return [pin.partition("==")[0] for pin in pins]


@each_row(
    ("variant", "pins", "kept"),
    [
        ("gpu", PINS, ["numpy", "nvidia-cublas", "nvidia-cuda-runtime", "torch"]),
        ("cpu", PINS, ["numpy", "nvidia-cuda-runtime", "torch"]),
        # however they are spelt
        ("cpu", ["triton==3.9.0", "cuda-bindings==13.5.0", "NVIDIA_nccl-cu13==2.30.7 ; x == 'y'"], []),
        # of similar names
        ("cpu", ["tritonclient==2.73.0", "nvidia-cuda-cupti==13.2.86"], ["tritonclient", "nvidia-cuda-cupti"]),
        ("cpu", ["tritonclient[grpc]==2.73.0"], ["tritonclient[grpc]"]),
    ],
)
def test_only_the_cpu_variant_leaves_out_what_only_a_gpu_needs(variant, pins, kept):
    assert names(requirements_for(variant, pins)) == kept


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="'tpu'"):
        requirements_for("tpu", PINS)


def test_a_pin_is_one_line_with_all_its_hashes():
    lines = "# pins\nnumpy==2.4.6 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\ntriton==3 \\\n  --hash=sha256:cc"
    assert requirements_for("cpu", lines.splitlines()) == ["numpy==2.4.6 --hash=sha256:aa --hash=sha256:bb"]


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
    assert install.missing([f"numpy=={installed} --hash=x", "numpy==0.0.1 --hash=y", "no-such-package==1"]) == [
        "numpy==0.0.1 --hash=y",
        "no-such-package==1",
    ]


def test_tensorflow_image_has_the_small_tensorflow_without_gpus_and_the_full_one_with():
    lines = (REPOSITORY / "trainer" / REQUIREMENTS["tensorflow"]).read_text().splitlines()
    on_cpu, on_gpu = (set(names(requirements_for(variant, lines))) for variant in ("cpu", "gpu"))
    assert on_cpu - on_gpu == {"tensorflow-cpu"}
    assert "tensorflow" in on_gpu - on_cpu
    assert all(name == "tensorflow" or name.startswith("nvidia-") for name in on_gpu - on_cpu)
    assert "nvidia-cudnn-cu12" in on_gpu
    assert not {"torch", "mpi4py"} & on_gpu


def test_both_images_and_the_tests_have_the_same_versions():
    def pins(file):
        lines = (REPOSITORY / file).read_text().splitlines()
        return dict(line.split()[0].split("==") for line in requirements_for("cpu", lines))

    tested = pins("requirements-test.txt")
    for file in REQUIREMENTS.values():
        pinned = pins(f"trainer/{file}")
        assert {name: version for name, version in pinned.items() if tested.get(name) != version} == {}


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """Record the programs that the installation runs, instead of running them; ssh and RDMA are there."""
    run = []
    libraries = tmp_path / "lib"
    (libraries / "libibverbs").mkdir(parents=True)
    for name in install.RDMA_LIBRARIES:
        (libraries / name.replace("*", "34")).touch()
    monkeypatch.setattr(install, "LIBRARY_FOLDERS", (str(libraries),))
    monkeypatch.setattr(install, "LINKER_FILE", tmp_path / "openmpi.conf")
    monkeypatch.setattr(install, "shutil", SimpleNamespace(which=lambda _: "/usr/bin/it", rmtree=lambda *_, **__: None))
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: run.append(command))
    monkeypatch.setattr(install, "write_stand_ins", lambda folder: run.append(["stand-ins", folder.name]))
    return run


def _main(tmp_path, framework, variant, pins):
    (tmp_path / REQUIREMENTS[framework]).write_text(pins)
    install.main(["--framework", framework, "--variant", variant, str(tmp_path)])


def test_installation_takes_no_files_beyond_the_pins(commands, tmp_path, monkeypatch):
    installed = []
    record = install.subprocess.run

    def read(command, **how):
        installed.extend(Path(command[-1]).read_text().splitlines() if "pip" in command else [])
        return record(command, **how)

    monkeypatch.setattr(install.subprocess, "run", read)
    _main(tmp_path, "pytorch", "cpu", "no-such-package==1 \\\n    --hash=sha256:aa\nnvidia-cublas==0\n")
    pip, ldconfig, stand_ins, check = commands
    assert {"--no-deps", "--require-hashes"} <= set(pip)
    assert installed == ["no-such-package==1 --hash=sha256:aa"]
    assert ldconfig == ["ldconfig"]
    assert stand_ins[0] == "stand-ins"
    assert "import torch" in check[-1]


@pytest.mark.parametrize(
    ("framework", "variant", "calls", "imported", "absent"),
    [("pytorch", "gpu", 2, "torch", "tensorflow"), ("tensorflow", "cpu", 1, "tensorflow", "torch")],
)
def test_complete_base_needs_no_network_and_is_checked_by_importing_its_framework(
    *, commands, tmp_path, framework, variant, calls, imported, absent
):
    _main(tmp_path, framework, variant, f"numpy=={importlib.metadata.version('numpy')}\n")
    assert len(commands) == calls
    assert f"import {imported}" in commands[-1][-1]
    assert absent not in commands[-1][-1]


@pytest.mark.parametrize("variant", ["cpu", "gpu"])
def test_programs_are_installed_only_where_they_are_missing(commands, monkeypatch, variant):
    install.install_system_packages(variant)
    assert commands == []
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name in {"sshd", "xz"} else "/usr/bin/ssh")
    install.install_system_packages(variant)
    update, installed = commands
    assert update == ["apt-get", "update"]
    assert "--no-install-recommends" in installed
    assert installed[-2:] == ["openssh-server", "xz-utils"]
    assert {*install.SSH_PROGRAMS.values(), *install.SHELL_PROGRAMS.values()} <= set(debian.PACKAGES)


def test_what_only_gpus_need_is_installed_in_the_gpu_variant_alone(commands, monkeypatch):
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name in install.GPU_PROGRAMS else "/usr/bin/ssh")
    install.install_system_packages("cpu")
    assert commands == []
    install.install_system_packages("gpu")
    assert commands[1][-2:] == ["ibverbs-utils", "numactl"]


def test_rdma_libraries_are_installed_where_they_are_missing(commands, monkeypatch):
    libraries = Path(install.LIBRARY_FOLDERS[0])
    erdma = libraries / "libibverbs" / "liberdma-rdmav34.so"
    erdma.unlink()
    record = install.subprocess.run

    def apt(command, **how):
        record(command, **how)
        if "install" in command:
            erdma.touch()

    monkeypatch.setattr(install.subprocess, "run", apt)
    install.install_system_packages("gpu")
    assert commands[1][-1] == "ibverbs-providers"


def test_a_base_whose_packages_lack_erdma_is_refused(commands):
    """Ubuntu 22.04 has rdma-core 39.0: NCCL would use TCP on eRDMA nodes and say nothing."""
    (Path(install.LIBRARY_FOLDERS[0]) / "libibverbs" / "liberdma-rdmav34.so").unlink()
    install.install_system_packages("cpu")
    with pytest.raises(FileNotFoundError, match=r"liberdma.*Fix: take a base with rdma-core 43.0"):
        install.install_system_packages("gpu")
    assert commands[1][-1] == "ibverbs-providers"
