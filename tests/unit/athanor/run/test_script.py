"""A command's script has to be among the files that the job gets."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from athanor.run.image_modules import OF_PYTORCH, OF_TENSORFLOW, check_module_exists, check_prepare
from athanor.run.script import check_requirements, check_script
from infra.errors import RefusalError
from tests.tables import each_row
from workloads.local_folder import LocalFolder
from workloads.pytorch import PyTorchJobArgs

TRAINER = Path(__file__).resolve().parents[4] / "trainer"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "src" / "package").mkdir(parents=True)
    (tmp_path / "src" / "package" / "train.py").touch()
    for name in ("train.py", "code/more.py", "generated.py"):
        (tmp_path / name).touch()
    for name, mode in (("run.sh", 0o644), ("tool", 0o644), ("started.sh", 0o755), ("code/started", 0o755)):
        (tmp_path / name).touch(mode=mode)
    for name in ("whole", "started"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "started" / "__main__.py").touch()
    (tmp_path / "linked").symlink_to("code")
    (tmp_path / ".gitignore").write_text("generated.py\n")
    return LocalFolder(path=str(tmp_path))


@each_row(
    "command",
    [
        "python train.py --data absent.py",
        "python3.11 ./train.py",
        "sh code/more.py",
        "python linked/more.py",
        "-m absent",
        "-m code.more --lr 1",
        "python -m code",
        "python -m started",
        "python -m whole.__init__",
        "python -m absent.py",
        "python -c absent.py",
        "python -u -X dev -W ignore train.py absent.py",
        "bash -c absent.sh",
        "sh -euo pipefail run.sh",
        "/opt/absent.py",
        "../absent.py",
        "$PROGRAM.py",
        "python",
        "./absent",
        "./started.sh",
        "code/started",
        "linked/started",
        "--no-python ./started.sh",
        "tool",
        "sh run.sh",
        "-m trainer.train --model train.py:ViT --dataset=code/more.py:Faces --network=/opt/net.py:Net",
        "-m other.train --model absent.py:ViT",
    ],
)
def test_what_is_sent_or_elsewhere_is_accepted(source, command):
    check_script(shlex.split(command), source)


def test_torchrun_starts_a_script_that_is_not_executable(source):
    check_script(["train.py"], source, under_torchrun=True)
    check_script(["--no-python"], source, under_torchrun=True)


@each_row(
    ("command", "message"),
    [
        ("./run.sh --lr 1", "program = './run.sh': is not executable. Fix: chmod +x run.sh, or write: sh run.sh"),
        ("./train.py", "program = './train.py': is not executable. Fix: chmod +x train.py, or write: python train.py"),
        ("linked/more.py", "is not executable. Fix: chmod +x linked/more.py, or write: python linked/more.py"),
        ("./tool", "program = './tool': is not executable. Fix: chmod +x tool"),
        ("--no-python ./run.sh", "is not executable. Fix: chmod +x run.sh, or write: sh run.sh"),
        ("started.sh", "is looked up in PATH, not in the folder. Fix: write ./started.sh, or write: sh started"),
    ],
)
def test_a_script_that_no_pod_could_start_is_refused(source, command, message):
    for under_torchrun in {False, command.startswith("--no-python")}:
        with pytest.raises(RefusalError) as refusal:
            check_script(shlex.split(command), source, under_torchrun=under_torchrun)
        assert message in str(refusal.value)


def test_a_script_whose_interpreter_ends_in_cr_is_refused(source):
    """The kernel looks for `sh` with a CR behind it, and the pod says of the script that it is not found."""
    file = Path(source.path, "dos.sh")
    file.write_bytes(b"#!/bin/sh\r\necho a\r\n")
    file.chmod(0o755)
    folder = LocalFolder(path=source.path)
    for command, under_torchrun in ((["./dos.sh"], False), (["--no-python", "./dos.sh"], True)):
        with pytest.raises(RefusalError, match=r"program = '\./dos\.sh': begins with a #! line that ends in CR LF"):
            check_script(command, folder, under_torchrun=under_torchrun)
    check_script(["python", "dos.sh"], folder)  # names its interpreter
    file.write_bytes(b"#!/bin/sh\necho a\r\n")
    check_script(["./dos.sh"], LocalFolder(path=source.path))


@each_row("command", ["sh dos.sh", "bash -e ./dos.sh"])
def test_a_script_of_a_shell_with_the_ends_of_lines_of_windows_is_refused(source, command):
    file = Path(source.path, "dos.sh")
    file.write_bytes(b"set -e\r\nif true; then\r\n  echo a\r\nfi\r\n")
    with pytest.raises(RefusalError, match=r"program = 'dos\.sh': has lines that end in CR LF.*sed -i 's/\\r\$//' dos"):
        check_script(shlex.split(command), LocalFolder(path=source.path))
    file.write_bytes(b"printf 'a\\r\\n'\n")
    check_script(shlex.split(command), LocalFolder(path=source.path))


@each_row(
    "command",
    [
        *("absent.py", "python code/absent.py --lr 1", "bash ./absent.sh", "--no-python ./absent.sh"),
        *("python -u absent.py", "python3 -OO -X dev -Wignore absent.py", "python -W ignore -uB absent.py"),
        *("bash -ex absent.sh", "sh -euo pipefail absent.sh"),
        *("-m trainer.train --model absent.py:ViT", "python3 -m trainer.train --dataset=code/absent.py:Faces"),
    ],
)
def test_a_script_that_does_not_exist_is_refused(source, command):
    with pytest.raises(RefusalError, match=r"program = '[a-z/]*absent\.\w+': is not in /.*Fix: .*--workdir"):
        check_script(shlex.split(command), source)


def test_a_script_that_is_ignored_is_refused_with_the_line_that_takes_it_in(source, tmp_path):
    with pytest.raises(RefusalError, match=r"left out of the code by \.gitignore.* Fix: write `!/generated\.py` into"):
        check_script(["generated.py"], source, under_torchrun=True)
    (tmp_path / ".athanorignore").write_text("!/generated.py\n")
    check_script(["generated.py"], LocalFolder(path=source.path), under_torchrun=True)


@each_row(
    ("command", "said"),
    [
        ("python -m code.absent", "program = 'code.absent': is not in .*/code. Fix: correct it"),
        ("python -u -X dev -m code.absent", "program = 'code.absent': is not in .*/code. Fix: correct it"),
        ("python -m whole", "program = 'whole': is a package without __main__.py, .* or write whole/__main__.py"),
        ("-m code.more.absent", "program = 'code.more.absent': is not in"),
        (
            "python3 -m package.train",
            "is in src, where Python does not search for it. Fix: add --env PYTHONPATH=/source/code/src",
        ),
    ],
)
def test_a_module_that_the_folder_lacks_is_refused(source, command, said):
    with pytest.raises(RefusalError, match=said):
        check_script(shlex.split(command), source)


def test_requirements_are_a_file_that_is_sent(source):
    check_requirements("code/more.py", source)
    check_requirements(None, source)
    for file, said in (("absent.txt", "is not in"), ("generated.py", "is left out of the code")):
        with pytest.raises(RefusalError, match=f"requirements = '{file}': {said}"):
            check_requirements(file, source)


def test_what_requirements_include_is_sent_too_and_none_of_it_is_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.txt": "-r b.txt", "b.txt": "x", "e.txt": "-e .", ".gitignore": "b.txt"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    folder = LocalFolder()
    with pytest.raises(RefusalError, match=r"requirements = 'b.txt': is left out of the code"):
        check_requirements("a.txt", folder)
    with pytest.raises(RefusalError, match=r"'e.txt': .*installs the job's own code.* Fix: omit it; code in src"):
        check_requirements("e.txt", folder)


def test_a_module_that_is_nowhere_is_refused_in_the_platforms_own_image(source):
    ours = OURS
    program = ("-m", "absent.train")
    args = PyTorchJobArgs(program=program, workers=1, source=source)
    with pytest.raises(RefusalError, match="absent is neither in the code nor in the platform's image"):
        check_module_exists(program, args, ours)
    for module in ("torch.distributed.run", "json.tool", "code.more", "trainer.train"):
        check_module_exists(("python3", "-m", module), args, ours)
    check_module_exists(program, args, "registry.example/team/trainer:1")
    for more in ({"prepare": ("pip", "install", "absent")}, {"env": {"PYTHONPATH": "/data/data"}}):
        check_module_exists(program, replace(args, **more), ours)


def test_the_modules_of_the_images_are_those_of_their_packages():
    """The tests' environment has the packages of both, in the same versions, but for TensorFlow's own wheel."""
    for known, files in (
        (OF_PYTORCH, ("requirements.txt", "requirements-training.txt")),
        (OF_TENSORFLOW, ("requirements-tensorflow.txt",)),
    ):
        pinned = re.findall(r"^([\w.-]+)==", "\n".join((TRAINER / name).read_text() for name in files), re.MULTILINE)
        names = {canonicalize_name(name) for name in pinned}
        modules = {
            module
            for module, packages in packages_distributions().items()
            if module.isidentifier() and module[0] != "_" and names & {canonicalize_name(each) for each in packages}
        }
        assert modules <= known


@each_row("file", ["requirements-training.txt", "requirements-tensorflow.txt"])
def test_the_images_of_jobs_have_what_installs_their_packages(file):
    assert re.search(r"^pip==", (TRAINER / file).read_text(), re.MULTILINE)


OURS = "registry.example/mirror/athanor/trainer:0.1.0-cpu-1"


@each_row(
    "prepare",
    [
        *("apt-get install -y ffmpeg", "sh -c 'cd x && git clone y'", "/usr/bin/curl -O z", "A=1 ffmpeg", "zip a"),
        *("perl -e 1", "sh -c 'set -e; (cd x; zip y) | tail'", "sh -c 'pip install x\nsudo y'", "sh -c 'a=$(jq . x)'"),
        *("sh -c 'echo $((i + 1)) > log; ffmpeg'", "sh -c 'echo a \\\n b # c; d\nffmpeg'"),
    ],
)
def test_a_preparation_with_a_program_that_the_image_lacks_is_refused(prepare):
    args = PyTorchJobArgs(program=("train.py",), workers=1, prepare=tuple(shlex.split(prepare)))
    with pytest.raises(
        RefusalError, match=r"is not in the platform's image\. Fix: name an image that has it with --image"
    ):
        check_prepare(args, OURS)
    check_prepare(args, "registry.example/team/trainer:1")
    check_prepare(replace(args, image=OURS), OURS)
    check_prepare(replace(args, env={"PATH": "/data/output/bin:/usr/bin"}), OURS)


@each_row(
    "prepare",
    [
        *("pip install --user git+https://git.example/a", "./git a", "tools/zip a", "A=1 python x.py", "sh fetch.sh"),
        *("sh -c 'cd x && pip install . && tool a'", "sh -c 'python -m pip install uv; uv pip install x'"),
        *("sh -c 'set -eu\nfor i in $(seq 3); do echo $((i + 1)) 2>&1 > log; done # git\n'", "sh -c '(cd a; ls) | wc'"),
        *("unzip -q a.zip", "sh -c 'which sh; hostname; nvidia-smi; zcat a.gz | awk 1 | xz; command -v git || :'"),
        *("sh -c 'echo $(date) done >> log'", "sh -c 'if [ -e a ]; then :; fi; a=(git b); $PROGRAM a'"),
        *("sh -c 'f() { ls; }; f'", "sh -c 'case a in git) ls;; esac'", "sh -c 'cat <<END\ngit\nEND\n'"),
        *("bash -c 'source env; tool'", "sh -c 'PATH=$PATH:/data/output/bin; tool'", "sh -c \"echo 'a; git'\""),
    ],
)
def test_a_preparation_with_what_a_shell_can_do_is_not(prepare):
    check_prepare(PyTorchJobArgs(program=("a.py",), workers=1, prepare=tuple(shlex.split(prepare))), OURS)


def test_what_requirements_install_may_prepare():
    args = PyTorchJobArgs(program=("a.py",), workers=1, source=LocalFolder(), requirements="r.txt", prepare=("tool",))
    check_prepare(args, OURS)
