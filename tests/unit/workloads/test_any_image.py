"""Images that were made for root: their programs find a user, a home and a directory that they can write to."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from tests.pod_security import violations
from tests.recording_engine import Recording, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import environment, manifest_of, plain_platform, pod, task
from workloads.any_image import WORKING_DIRECTORY, in_writable_directory
from workloads.batch import BatchJob, BatchJobArgs
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs
from workloads.pytorch import PyTorchJobArgs
from workloads.tensorflow import TensorFlowJobArgs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.manifests import Manifest

JOBS = {
    "pytorch": lambda **more: manifest_of(PyTorchJobArgs(program=("train.py",), workers=2, **more)),
    "mpi": lambda **more: manifest_of(MPIJobArgs(program=("./train",), workers=2, **more)),
    "tensorflow": lambda **more: manifest_of(TensorFlowJobArgs(program=("python", "train.py"), workers=2, **more)),
    "batch": lambda **more: manifest_of(BatchJobArgs(command=("sh", "-c", "true"), **more)),
}


@pytest.fixture(params=JOBS)
def made(request):
    return JOBS[request.param]


def _own_containers(manifest: Manifest) -> list[Manifest]:
    """Return what runs in the job's own image."""
    pods = [each["template"]["spec"] for each in manifest["spec"]["tasks"]]
    containers = [each for spec in pods for each in (*spec["initContainers"], *spec["containers"])]
    return [each for each in containers if each["image"] == "own:1"]


def test_every_container_has_a_home_and_an_account(made):
    manifest = made()
    for each in manifest["spec"]["tasks"]:
        assert environment(manifest, each["name"])["HOME"] == "/tmp"
        annotations = each["template"]["metadata"]["annotations"]
        assert "\nathanor:x:10001:10001::/tmp:/bin/sh\n" in annotations["athanor.dev/passwd"]
    for container in _own_containers(manifest):
        [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == "/etc/passwd"]
        assert (mount["subPath"], mount["readOnly"]) == ("passwd", True)


def test_a_preparation_has_them_too():
    spec = pod(JOBS["pytorch"](prepare=("python", "get.py")), "worker")
    [prepare] = spec["initContainers"]
    assert {"name": "HOME", "value": "/tmp"} in prepare["env"]
    assert prepare["command"] == list(in_writable_directory())


def test_a_preparation_has_the_users_variables_and_leaves_packages_where_the_program_finds_them():
    """pip install --user writes below HOME, in the /tmp that all containers of a pod share."""
    spec = pod(
        JOBS["pytorch"](prepare=("pip", "install", "--user", "a"), env={"PIP_INDEX_URL": "http://own"}), "worker"
    )
    [prepare], [worker] = spec["initContainers"], spec["containers"]
    assert {"name": "PIP_INDEX_URL", "value": "http://own"} in prepare["env"]
    for container in (prepare, worker):
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        assert {"name": "HOME", "value": "/tmp"} in container["env"]


def test_a_preparation_writes_to_the_caches_of_a_job_that_has_some():
    """Else pip would download the packages in each pod of each run."""

    def steps(**more: object) -> dict[str, tuple[str | None, bool]]:
        spec = pod(JOBS["pytorch"](minimum_workers=1, prepare=("pip", "install", "a"), **more), "worker")
        return {each["name"]: (_pip_cache(each), _writes_output(each)) for each in spec["initContainers"]}

    assert steps() == {"prepare": (None, False), "wait": (None, False)}
    assert steps(cache="resnet") == {"prepare": ("/data/output/caches/resnet/pip", True), "wait": (None, False)}
    assert steps(cache="resnet", env={"PIP_CACHE_DIR": "/tmp/pip"})["prepare"] == ("/tmp/pip", True)


def _pip_cache(container: Manifest) -> str | None:
    return {each["name"]: each["value"] for each in container["env"]}.get("PIP_CACHE_DIR")


def _writes_output(container: Manifest) -> bool:
    return not next(each["readOnly"] for each in container["volumeMounts"] if each["mountPath"] == "/data/output")


def test_caches_are_kept_where_later_runs_find_them(made):
    for each in made(cache="resnet")["spec"]["tasks"]:
        own = environment(made(cache="resnet"), each["name"])
        assert (own.get("XDG_CACHE_HOME"), own.get("TRITON_CACHE_DIR")) in {
            ("/data/output/caches/resnet", "/data/output/caches/resnet/triton"), (None, None)  # of the platform's own
        }  # fmt: skip
    own = environment(JOBS["batch"](cache="resnet", env={"PIP_CACHE_DIR": "/tmp/pip"}), "pod")
    assert own["XDG_CACHE_HOME"] == "/data/output/caches/resnet"
    assert own["PIP_CACHE_DIR"] == "/tmp/pip"
    assert "XDG_CACHE_HOME" not in environment(JOBS["batch"](), "pod")


def test_a_home_of_the_users_own_wins():
    assert environment(JOBS["batch"](env={"HOME": "/data/output"}), "pod")["HOME"] == "/data/output"


def test_programs_start_in_a_writable_directory(made):
    for container in _own_containers(made()):
        assert f"to={WORKING_DIRECTORY}; mkdir" in container["command"][2]
        assert "workingDir" not in container


@each_row(
    ("more", "directory", "has_shell"),
    [
        ({"source": GitSource(repository="https://git.example/a.git", branch="main")}, "/source/code", True),
        ({"working_directory": "/app"}, "/app", False),
    ],
)
def test_a_directory_that_is_known_need_not_be_made_writable(made, more, directory, *, has_shell):
    """One that the user names needs no shell in the image either."""
    for container in _own_containers(made(**more)):
        assert container["workingDir"] == directory
        assert WORKING_DIRECTORY not in str(container)
        assert ("export PYTHONPATH" in container["command"][2 if len(container["command"]) > 2 else 0]) == has_shell


def test_every_own_container_has_the_module_of_the_platform(made):
    manifest = made()
    for container in _own_containers(manifest):
        [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == "/etc/athanor/python"]
        assert mount["readOnly"] is True
    volumes = [volume for each in manifest["spec"]["tasks"] for volume in each["template"]["spec"]["volumes"]]
    [module, *_] = [volume["configMap"] for volume in volumes if volume["name"] == "athanor-run"]
    assert module == {"name": "athanor-run", "optional": True}


def test_a_relative_directory_is_refused():
    with pytest.raises(RefusalError, match="working_directory = 'app'"):
        JOBS["batch"](working_directory="app")


def test_another_user_has_an_account_and_the_platforms_programs_keep_theirs():
    manifest = JOBS["pytorch"](run_as_user=1000, minimum_workers=1, prepare=("./get",))
    worker, store = (task(manifest, role)["template"] for role in ("worker", "rendezvous"))
    users = {
        each["name"]: each["securityContext"].get("runAsUser")
        for template in (worker, store)
        for each in (*template["spec"]["initContainers"], *template["spec"]["containers"])
    }
    assert users == {"prepare": 1000, "wait": None, "worker": 1000, "rendezvous": None}
    assert "\nuser:x:1000:10001::/tmp:/bin/sh\n" in worker["metadata"]["annotations"]["athanor.dev/passwd"]
    assert violations(worker["spec"]) == []


def test_another_user_of_code_from_a_folder_starts_where_it_can_write():
    source = GitSource(repository="https://git.example/a.git", branch="main")
    [container] = pod(JOBS["batch"](run_as_user=1000, source=source), "pod")["containers"]
    assert WORKING_DIRECTORY in container["command"][2]
    assert container["workingDir"] == "/source/code"


def test_a_root_file_system_can_be_writable():
    for container in _own_containers(JOBS["pytorch"](read_only_root=False, prepare=("./get",))):
        assert "readOnlyRootFilesystem" not in container["securityContext"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@each_row("user", [-1, 2**31])
def test_a_user_that_kubernetes_does_not_know_is_refused(user):
    with pytest.raises(RefusalError, match=f"run_as_user = {user}: must be 0 to 2147483647"):
        JOBS["batch"](run_as_user=user)


def test_root_is_refused_at_restricted_and_for_mpi():
    args = BatchJobArgs(command=("true",), run_as_user=0)

    def declare(level: str) -> Recording:
        def program() -> None:
            platform = dataclasses.replace(plain_platform(), offers=PlatformOffers(pod_security=level))
            BatchJob("job", platform, args)

        return record(program, preview=False)

    with pytest.raises(RefusalError, match=r"run_as_user = 0: is root, and .* 'restricted'"):
        declare("restricted")
    [job] = declare("baseline").of_kind("Job")
    context = job.inputs["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (0, False)
    with pytest.raises(RefusalError, match="run_as_user = 0: is root, but neither mpirun"):
        JOBS["mpi"](run_as_user=0)


class TestInWritableDirectory:
    """The shell in front of every program, run as the kubelet runs it."""

    @staticmethod
    def run(directory: Path, scratch: Path, *command: str) -> str:
        words = [word.replace(WORKING_DIRECTORY, str(scratch)) for word in in_writable_directory()]
        done = subprocess.run(
            [*words, *command],
            cwd=directory,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=_without_privilege,
        )
        return done.stdout

    @pytest.fixture
    def image(self) -> Iterator[tuple[Path, Path]]:
        """A working directory as images have them, root's with code and data; and where the writable one may be."""
        with tempfile.TemporaryDirectory() as root:
            yield self.made(Path(root))

    @staticmethod
    def made(root: Path) -> tuple[Path, Path]:
        folder = root / "workspace"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "labels").write_text("7")
        (folder / "train.py").write_text("import lib, os; print(lib.NAME, open('data/labels').read(), os.getcwd())")
        (folder / "lib.py").write_text("NAME = 'lib'")
        (folder / ".config with space").write_text("hidden")
        folder.chmod(0o555)
        root.chmod(0o755)
        scratch = root / "scratch"
        scratch.mkdir()
        scratch.chmod(0o777)
        return folder, scratch / "working-directory"

    def test_what_the_image_brings_is_there_and_new_folders_can_be_made(self, image):
        folder, scratch = image
        assert self.run(folder, scratch, "python3", "train.py") == f"lib 7 {scratch}\n"
        self.run(
            folder, scratch, "sh", "-c", "mkdir checkpoints && echo 1 > checkpoints/step && cat '.config with space'"
        )
        assert (scratch / "checkpoints" / "step").read_text() == "1\n"
        assert not (folder / "checkpoints").exists()

    def test_a_second_program_in_the_pod_finds_it_made(self, image):
        folder, scratch = image
        self.run(folder, scratch, "touch", "prepared")
        assert "prepared" in self.run(folder, scratch, "ls")

    def test_a_directory_that_can_be_written_stays(self, image):
        folder, scratch = image
        folder.chmod(0o777)
        assert self.run(folder, scratch, "pwd") == f"{folder}\n"
        assert not scratch.exists()

    def test_arguments_stay_words_and_the_exit_status_the_programs(self, image):
        folder, scratch = image
        assert self.run(folder, scratch, "printf", "%s|", "a b", "$(id)", "*") == "a b|$(id)|*|"
        with pytest.raises(subprocess.CalledProcessError) as caught:
            self.run(folder, scratch, "sh", "-c", "exit 7")
        assert caught.value.returncode == 7


def _without_privilege() -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
