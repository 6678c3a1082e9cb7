"""The images in a real containerd: the trainer's as pods run it, and the platform's. Needs no cluster."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import infra.images
from tests.fixtures.clone import wait_until
from tests.fixtures.local_cluster import quiet_progress
from tools.images import ensure_platform_images, ensure_trainer_image, trainer_image
from tools.images.containerd import NodeImages
from tools.images.oci import Sink
from tools.images.platform_images import COREDNS_IMAGE, MONITORING_IMAGES, PAUSE_IMAGE, PLATFORM_IMAGES
from tools.images.store import images_folder, open_layout
from tools.paths import REPOSITORY
from tools.process import CommandError, run
from tools.toolchain.catalogue import tool_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERD_CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{folder}/socket"
"""

DISTRIBUTED_PROGRAM = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)))
optimizer = torch.optim.AdamW(model.parameters())
images, labels = torch.rand(16, 1, 8, 8), torch.arange(16) % 10
with torch.profiler.profile():
    before = torch.nn.functional.cross_entropy(model(images), labels)
    before.backward()
    optimizer.step()
    after = torch.nn.functional.cross_entropy(model(images), labels)
assert after < before, (after, before)
frozen = torch.jit.freeze(torch.jit.trace(model.module.eval(), images))
frozen.save(f"/tmp/model-{torch.distributed.get_rank()}.pt")
loaded = torch.jit.load(f"/tmp/model-{torch.distributed.get_rank()}.pt")
torch.testing.assert_close(torch.jit.optimize_for_inference(loaded)(images), model.module(images))
try:
    images.cuda()
except RuntimeError as error:
    assert "NVIDIA driver" in str(error), error
else:
    raise AssertionError("a CPU image found a GPU")
torch.distributed.barrier()
with open(f"/tmp/done-{torch.distributed.get_rank()}", "w") as file:
    file.write(f"rank {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}\\n")
torch.distributed.destroy_process_group()
"""

SSH_SCRIPT = """
set -eu
export HOME=/tmp
umask 077
for key in host user; do ssh-keygen -q -t ed25519 -N '' -f /tmp/$key; done
server="/usr/sbin/sshd -i -f /dev/null -o HostKey=/tmp/host -o AuthorizedKeysFile=/tmp/user.pub -o StrictModes=no"
client="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
login="ssh -i /tmp/user $client athanor@pod"
$login -o ProxyCommand="$server" 'id -un; command -v mpirun; PRTE_PREFIX=/usr/local prted --help | grep -m1 -o PRRTE'
"""
"""Logs in and starts a daemon as mpirun does, by a pipe in the place of a port: without the image's environment."""

MPI_PROGRAM = """
from mpi4py import MPI
sums = MPI.COMM_WORLD.gather(MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1))
if sums is not None:
    print(sums)
"""

GIT_PROGRAM = """
import importlib, pkgutil, ssl, trainer.source
for module in pkgutil.walk_packages(trainer.source.__path__, "trainer.source."):
    importlib.import_module(module.name)
assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 100
"""

TENSORFLOW_PROGRAM = """
import importlib, os, pkgutil, keras, tensorflow, trainer.source, trainer.tf
for package in (trainer.source, trainer.tf):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
assert os.path.getsize(tensorflow.__cached__) and os.path.getsize(keras.__cached__)
weights = tensorflow.Variable([[2.0], [1.0]])
with tensorflow.GradientTape() as tape:
    loss = tensorflow.reduce_sum(tensorflow.matmul([[3.0, 4.0]], weights))
print(loss.numpy(), tape.gradient(loss, weights).numpy().tolist(), tensorflow.config.list_physical_devices("GPU"))
"""

BUILD_PROGRAM = """
import sys
from pathlib import Path
from tests.cluster.test_trainer_images import build_from
build_from(Path(sys.argv[1]))
"""


class Containerd:
    """A containerd of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "socket"
        self.images = NodeImages(self.socket)
        self._ctr = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io"]

    def ctr(self, *words: str, log: Path | None = None) -> str:
        return run([*self._ctr, *words], log=log)

    def run(self, image: str, *command: str, log: Path | None = None) -> str:
        """Run a program as a restricted pod does: the image's user, read-only root, only /tmp writable."""
        mounts = ["--mount", "type=tmpfs,dst=/tmp,options=mode=1777", "--net-host"]
        words = ["run", "--rm", "--read-only", *mounts, image, f"test-{os.urandom(4).hex()}", *command]
        return self.ctr(*words, log=log)


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    folder = tmp_path_factory.mktemp("containerd")
    (folder / "config.toml").write_text(CONTAINERD_CONFIG.format(folder=folder))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["containerd", "--config", folder / "config.toml"], stdout=log, stderr=log)
    try:
        wait_until((folder / "socket").is_socket, "containerd to listen")
        yield Containerd(folder)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def trainer(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> str:
    return ensure_trainer_image(containerd.socket, quiet_progress(tmp_path_factory.mktemp("progress")))


def test_trainer_runs_unprivileged_on_a_read_only_root(containerd: Containerd, trainer: str) -> None:
    script = "id -u; id -g; id -un; touch /opt/athanor/x 2>&1; touch /tmp/x && echo writable; command -v torchrun"
    assert containerd.run(trainer, "sh", "-c", script).splitlines() == [
        "10001",
        "10001",
        "athanor",
        "touch: cannot touch '/opt/athanor/x': Read-only file system",
        "writable",
        "/usr/local/bin/torchrun",
    ]


def test_trainer_imports_what_its_roles_need(containerd: Containerd, trainer: str) -> None:
    program = "import torch, trainer, sklearn.datasets, uvicorn, uvloop, httptools, orjson, tritonclient.grpc, tyro"
    assert containerd.run(trainer, "python3", "-c", f"{program}; print(torch.cuda.is_available())") == "False\n"


def test_trainer_accepts_an_mpi_launcher_over_ssh(containerd: Containerd, trainer: str) -> None:
    output = containerd.run(trainer, "sh", "-c", SSH_SCRIPT)
    assert output.splitlines() == ["athanor", "/usr/local/bin/mpirun", "PRRTE"]


def test_trainer_runs_mpi(containerd: Containerd, trainer: str) -> None:
    ranks = ["mpirun", "-np", "2", "--oversubscribe", "python3", "-c", MPI_PROGRAM]
    assert containerd.run(trainer, *ranks) == "[3, 3]\n"


def test_trainer_clones_over_https_and_holds_no_host_key(containerd: Containerd, trainer: str) -> None:
    containerd.run(trainer, "python3", "-c", GIT_PROGRAM)
    assert containerd.run(trainer, "find", "/etc/ssh", "-name", "ssh_host_*") == ""


def test_tensorflow_runs_in_its_own_image(containerd: Containerd, tmp_path: Path) -> None:
    image = ensure_trainer_image(containerd.socket, quiet_progress(tmp_path), framework="tensorflow")
    output = containerd.run(image, "python3", "-c", TENSORFLOW_PROGRAM)
    assert output.splitlines()[-1] == "10.0 [[3.0], [4.0]] []"
    containerd.run(image, "python3", "-c", GIT_PROGRAM)
    names = containerd.run(image, "find", "/opt/athanor/trainer", "-maxdepth", "1", "-name", "requirements*.txt")
    assert names.split() == ["/opt/athanor/trainer/requirements-tensorflow.txt"]
    with pytest.raises(CommandError, match="No module named 'torch'"):
        containerd.run(image, "python3", "-c", "import torch")


def test_trainer_starts_from_compiled_modules(containerd: Containerd, trainer: str) -> None:
    program = "import torch, json; print(torch.__cached__, json.__cached__)"
    for compiled in containerd.run(trainer, "python3", "-c", program).split():
        containerd.run(trainer, "test", "-s", compiled)


def test_trainer_has_no_setuid_program(containerd: Containerd, trainer: str) -> None:
    assert containerd.run(trainer, "find", "/", "-xdev", "-perm", "/6000") == ""


def test_distributed_training_and_torchscript_run_without_gpu_libraries(containerd: Containerd, trainer: str) -> None:
    write = f"cat > /tmp/program.py <<'END'\n{DISTRIBUTED_PROGRAM}\nEND\n"
    run_both = "torchrun --standalone --nproc-per-node=2 /tmp/program.py >/tmp/output 2>&1"
    output = containerd.run(trainer, "sh", "-c", f"{write} {run_both} && cat /tmp/done-* || cat /tmp/output")
    assert output == "rank 0 of 2\nrank 1 of 2\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Give a repository with a trainer/ that may be changed."""
    shutil.copytree(REPOSITORY / "trainer", tmp_path / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / ".dockerignore", tmp_path / ".dockerignore")
    (tmp_path / "trainer" / "added.py").write_text(f"VALUE = {os.urandom(8)!r}\n")
    return tmp_path


def build_from(repository: Path) -> str:
    """Build the trainer image of another working tree into the layout; return its reference."""
    trainer_image.REPOSITORY = repository
    reference = f"localhost/athanor/trainer:{infra.images.trainer_content_tag(repository, 'cpu')}"
    with open_layout() as layout:
        trainer_image.build(layout, reference, "pytorch", "cpu", quiet_progress(repository))
    return reference


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trainer_image, "REPOSITORY", REPOSITORY)  # put back afterwards
    return build_from


def test_changed_code_sends_only_small_layers(containerd: Containerd, trainer: str, sources: Path, build) -> None:
    reference = build(sources)
    present = set(containerd.ctr("content", "ls", "--quiet").split())
    with open_layout() as layout:
        before, after = (layout.members(layout.references()[name]) for name in (trainer, reference))
        stream = io.BytesIO()
        layout.write_archive(Sink(stream), reference, after[0], present=present)
        containerd.images.load(layout, reference, after[0])
    big = [layer.digest for layer in before[2:] if layer.size > 1 << 20]
    assert len(big) == 2  # Debian and the packages
    assert [layer.digest for layer in after[2:] if layer.size > 1 << 20] == big
    assert len(stream.getvalue()) < 4 << 20
    assert "VALUE" in containerd.run(reference, "cat", "/opt/athanor/trainer/added.py")


def test_only_sources_are_in_the_image(containerd: Containerd, trainer: str, sources: Path, build) -> None:
    del trainer
    (sources / "trainer" / "notes.md").write_text("not for pods")
    (sources / "secret").write_text("not for pods")
    reference = build(sources)
    with open_layout() as layout:
        containerd.images.load(layout, reference, layout.references()[reference])
    found = containerd.run(reference, "find", "/opt/athanor", "-name", "*.md", "-o", "-name", "secret")
    assert found == ""


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of running programs that were started with a path in `folder`."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in found if str(folder) in command]


def test_build_killed_half_way_leaves_nothing_and_the_next_one_succeeds(sources: Path, build) -> None:
    buildah = images_folder() / "buildah"
    containers = buildah / "storage" / "overlay-containers"
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_PROGRAM, sources],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    try:
        while not any(path.is_dir() for path in containers.glob("*")):
            assert process.poll() is None, "the build ended before it had a working container"
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_of(buildah), "the killed build's processes to end")
    reference = build(sources)
    with open_layout() as layout:
        assert layout.find(reference) is not None
    assert str(images_folder()) not in Path("/proc/self/mountinfo").read_text()
    assert not any(path.is_dir() for path in containers.glob("*"))
    assert list((images_folder() / "layout").glob("incoming-*")) == []
    assert list(images_folder().glob("root-*")) == []


def test_platform_images_run_as_their_upstreams_do(containerd: Containerd, tmp_path: Path) -> None:
    references = ensure_platform_images(containerd.socket, ("pause", "coredns"), quiet_progress(tmp_path))
    assert references == {"pause": PAUSE_IMAGE, "coredns": COREDNS_IMAGE}
    assert "CoreDNS" in containerd.ctr(
        "run", "--rm", "--cap-add", "CAP_NET_BIND_SERVICE", "--read-only", COREDNS_IMAGE, "dns", "/coredns", "-version"
    )
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    containerd.ctr("images", "mount", COREDNS_IMAGE, str(mounted))
    try:
        # revision 2, effective; permitted: bit 10, CAP_NET_BIND_SERVICE
        assert os.getxattr(mounted / "coredns", "security.capability")[:8] == bytes.fromhex("0100000200040000")
    finally:
        containerd.ctr("images", "unmount", str(mounted))


def test_programs_of_monitoring_run_alone_in_their_images(containerd: Containerd, tmp_path: Path) -> None:
    ensure_platform_images(containerd.socket, MONITORING_IMAGES, quiet_progress(tmp_path))
    for name in MONITORING_IMAGES:
        image = PLATFORM_IMAGES[name]
        words = "version" if name == "kube-state-metrics" else "--version"
        # Two of them tell it where others tell of errors.
        containerd.run(image.reference, image.path or f"/{name}", words, log=tmp_path / name)
        assert re.search(rf"\bv?{re.escape(str(tool_of(name).version))}\b", (tmp_path / name).read_text())


def test_loaded_platform_images_are_left_alone(containerd: Containerd, tmp_path: Path) -> None:
    ensure_platform_images(containerd.socket, ("pause",), quiet_progress(tmp_path))
    before = containerd.ctr("images", "ls")
    ensure_platform_images(containerd.socket, ("pause",), quiet_progress(tmp_path))
    assert containerd.ctr("images", "ls") == before
