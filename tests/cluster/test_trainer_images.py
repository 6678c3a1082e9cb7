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
from infra.images import COREDNS_IMAGE, PAUSE_IMAGE
from tests.fixtures.local_cluster import quiet_progress
from tests.waiting import wait_until
from tools.images import ensure_platform_images, ensure_trainer_images, trainer_image
from tools.images.oci import Sink
from tools.images.platform_images import MONITORING_IMAGES, PLATFORM_IMAGES
from tools.images.store import images_folder, open_layout
from tools.paths import REPOSITORY
from tools.toolchain.catalogue import tool_of

if TYPE_CHECKING:
    from tests.fixtures.containerd import Containerd

TORCH_PROGRAM = """
import json, os, PIL.Image, torch, trainer, sklearn.datasets, uvicorn, uvloop, httptools, orjson, tritonclient.grpc
import tensorboardX.proto.event_pb2, tensorboardX.record_writer, torch.utils.flop_counter, tyro
assert os.path.getsize(torch.__cached__) and os.path.getsize(json.__cached__)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
images = torch.rand(16, 1, 8, 8)
with torch.profiler.profile():
    torch.nn.functional.cross_entropy(model(images), torch.arange(16) % 10).backward()
torch.jit.freeze(torch.jit.trace(model.eval(), images)).save("/tmp/model.pt")
loaded = torch.jit.load("/tmp/model.pt")
torch.testing.assert_close(torch.jit.optimize_for_inference(loaded)(images), model(images))
assert not torch.cuda.is_available()
try:
    images.cuda()
except RuntimeError as error:
    assert "NVIDIA driver" in str(error), error
else:
    raise AssertionError("a CPU image found a GPU")
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

RDMA_PROGRAM = """
import ctypes, pathlib
verbs = ctypes.CDLL("libibverbs.so.1")
for symbol, version in (("ibv_get_device_list", "1.1"), ("ibv_reg_mr_iova2", "1.8"), ("ibv_reg_dmabuf_mr", "1.12")):
    find = ctypes.CDLL(None).dlvsym
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p], ctypes.c_void_p
    assert find(verbs._handle, symbol.encode(), f"IBVERBS_{version}".encode()), symbol
ctypes.CDLL("librdmacm.so.1")
for provider in ("erdma", "mlx5"):
    [library] = pathlib.Path("/usr/lib").glob(f"*-linux-gnu/libibverbs/lib{provider}-rdmav*.so")
    ctypes.CDLL(str(library))
    assert pathlib.Path(f"/etc/libibverbs.d/{provider}.driver").read_text().split() == ["driver", provider]
count = ctypes.c_int(-1)
verbs.ibv_get_device_list.restype = ctypes.c_void_p
verbs.ibv_get_device_list(ctypes.byref(count))
print(count.value)
"""
"""Opens what NCCL opens (NCCL 2.30, src/misc/ibvsymbols.cc), and the drivers that the library opens for a device."""

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
import glob, importlib, importlib.util, os, pkgutil, keras, tensorflow, trainer.tf
for module in pkgutil.walk_packages(trainer.tf.__path__, "trainer.tf."):
    importlib.import_module(module.name)
assert importlib.util.find_spec("torch") is None
print(glob.glob("/opt/athanor/trainer/requirements*.txt"))
assert os.path.getsize(tensorflow.__cached__) and os.path.getsize(keras.__cached__)
weights = tensorflow.Variable([[2.0], [1.0]])
with tensorflow.GradientTape() as tape:
    loss = tensorflow.reduce_sum(tensorflow.matmul([[3.0, 4.0]], weights))
print(loss.numpy(), tape.gradient(loss, weights).numpy().tolist(), tensorflow.config.list_physical_devices("GPU"))
"""

SERVING_PROGRAM = """
import importlib, importlib.util, pkgutil, trainer.serve
for module in pkgutil.walk_packages(trainer.serve.__path__, "trainer.serve."):
    importlib.import_module(module.name)
assert importlib.util.find_spec("trainer.pytorch") is None
assert importlib.util.find_spec("PIL") is None
"""

BUILD_PROGRAM = """
import sys
from pathlib import Path
from tests.cluster.test_trainer_images import build_from
build_from(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def trainer(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> str:
    progress = quiet_progress(tmp_path_factory.mktemp("progress"))
    return ensure_trainer_images(containerd.socket, ["training"], progress)["training"]


def test_trainer_runs_unprivileged_on_a_read_only_root(containerd: Containerd, trainer: str) -> None:
    script = "id -u; id -g; id -un; touch /opt/athanor/x 2>&1; touch /tmp/x && echo writable; command -v torchrun"
    script += "; echo GPUs: $NVIDIA_VISIBLE_DEVICES"
    assert containerd.run(trainer, "sh", "-c", script).splitlines() == [
        "10001",
        "10001",
        "athanor",
        "touch: cannot touch '/opt/athanor/x': Read-only file system",
        "writable",
        "/usr/local/bin/torchrun",
        "GPUs: void",
    ]


def test_torch_and_what_the_roles_need_run_without_gpu_libraries(containerd: Containerd, trainer: str) -> None:
    """From compiled modules; that ranks of several pods find each other is seen in the environment of `make up`."""
    assert containerd.run(trainer, "python3", "-c", TORCH_PROGRAM) == ""


def test_trainer_accepts_an_mpi_launcher_over_ssh(containerd: Containerd, trainer: str) -> None:
    output = containerd.run(trainer, "sh", "-c", SSH_SCRIPT)
    assert output.splitlines() == ["athanor", "/usr/local/bin/mpirun", "PRRTE"]


def test_trainer_runs_mpi(containerd: Containerd, trainer: str) -> None:
    ranks = ["mpirun", "-np", "2", "--oversubscribe", "python3", "-c", MPI_PROGRAM]
    assert containerd.run(trainer, *ranks) == "[3, 3]\n"


def test_trainer_has_the_libraries_of_rdma(containerd: Containerd, trainer: str) -> None:
    """Without a device they find none; NCCL on RDMA nodes would use TCP without saying so if they did not load."""
    assert containerd.run(trainer, "python3", "-c", RDMA_PROGRAM).strip() in {"0", "-1"}
    assert "IB devices" in containerd.run(trainer, "sh", "-c", "ibv_devinfo 2>&1 || true")


def test_trainer_binds_processes_to_cores_under_a_pods_system_call_filter(containerd: Containerd, trainer: str) -> None:
    """RuntimeDefault forbids what asks for memory policies, which numactl can do without."""
    words = ["run", "--rm", "--seccomp", "--read-only", "--net-host", trainer, f"test-{os.urandom(4).hex()}"]
    assert containerd.ctr(*words, "numactl", "--physcpubind=0", "grep", "Cpus_allowed_list", "/proc/self/status") == (
        "Cpus_allowed_list:\t0\n"
    )


def test_trainer_clones_over_https_and_holds_no_host_key(containerd: Containerd, trainer: str) -> None:
    containerd.run(trainer, "python3", "-c", GIT_PROGRAM)
    assert containerd.run(trainer, "find", "/etc/ssh", "-name", "ssh_host_*") == ""


def test_tensorflow_runs_in_its_own_image(containerd: Containerd, tmp_path: Path) -> None:
    image = ensure_trainer_images(containerd.socket, ["tensorflow"], quiet_progress(tmp_path))["tensorflow"]
    names, values = containerd.run(image, "python3", "-c", TENSORFLOW_PROGRAM).splitlines()[-2:]
    assert names == "['/opt/athanor/trainer/requirements-tensorflow.txt']"
    assert values == "10.0 [[3.0], [4.0]] []"


def test_services_have_an_image_without_training_on_the_same_layers(
    containerd: Containerd, trainer: str, tmp_path: Path
) -> None:
    image = ensure_trainer_images(containerd.socket, ["serving"], quiet_progress(tmp_path))["serving"]
    containerd.run(image, "python3", "-c", SERVING_PROGRAM)
    with open_layout() as layout:
        training, serving = (layout.members(layout.references()[name])[2:] for name in (trainer, image))
    big = [layer.digest for layer in training if layer.size > 1 << 20]
    # training has its own packages in a layer above
    assert [layer.digest for layer in serving if layer.size > 1 << 20] == big[:-1]


def test_trainer_has_no_setuid_program(containerd: Containerd, trainer: str) -> None:
    assert containerd.run(trainer, "find", "/", "-xdev", "-perm", "/6000") == ""


def build_from(repository: Path) -> str:
    """Build the trainer image of another working tree into the layout; return its reference."""
    trainer_image.REPOSITORY = repository
    reference = f"localhost/athanor/trainer:{infra.images.trainer_content_tag(repository, 'cpu', 'training')}"
    with open_layout() as layout:
        trainer_image.build(layout, reference, "training", "cpu", quiet_progress(repository))
    return reference


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of a changed trainer/, built after a build of the same was killed half-way."""
    sources = tmp_path_factory.mktemp("sources")
    shutil.copytree(REPOSITORY / "trainer", sources / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / ".dockerignore", sources / ".dockerignore")
    (sources / "trainer" / "training" / "added.py").write_text(f"VALUE = {os.urandom(8)!r}\n")
    (sources / "trainer" / "notes.md").write_text("not for pods")
    (sources / "secret").write_text("not for pods")
    kill_build_half_way(sources)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer_image, "REPOSITORY", REPOSITORY)  # put back afterwards
        return build_from(sources)


def kill_build_half_way(sources: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_PROGRAM, sources],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    try:
        while not working_containers():
            assert process.poll() is None, "the build ended before it had a working container"
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_of(images_folder() / "buildah"), "the killed build's processes to end")


def working_containers() -> list[Path]:
    folder = images_folder() / "buildah" / "storage" / "overlay-containers"
    return [path for path in folder.glob("*") if path.is_dir()]


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of running programs that were started with a path in `folder`."""
    commands: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if str(folder) in command]


def test_build_after_one_that_was_killed_half_way_leaves_nothing_of_both(changed: str) -> None:
    with open_layout() as layout:
        assert layout.find(changed) is not None
    assert str(images_folder()) not in Path("/proc/self/mountinfo").read_text()
    assert working_containers() == []
    assert list((images_folder() / "layout").glob("incoming-*")) == []
    assert list(images_folder().glob("root-*")) == []


def test_changed_code_sends_only_small_layers(containerd: Containerd, trainer: str, changed: str) -> None:
    present = set(containerd.ctr("content", "ls", "--quiet").split())
    with open_layout() as layout:
        before, after = (layout.members(layout.references()[name]) for name in (trainer, changed))
        stream = io.BytesIO()
        layout.write_archive(Sink(stream), changed, after[0], present=present)
        containerd.images.load(layout, changed, after[0])
    big = [layer.digest for layer in before[2:] if layer.size > 1 << 20]
    assert len(big) == 3  # Debian, the packages that services share, and those for training
    assert [layer.digest for layer in after[2:] if layer.size > 1 << 20] == big
    assert len(stream.getvalue()) < 4 << 20
    assert "VALUE" in containerd.run(changed, "cat", "/opt/athanor/trainer/training/added.py")


def test_only_sources_are_in_the_image(containerd: Containerd, trainer: str, changed: str) -> None:
    del trainer
    with open_layout() as layout:
        containerd.images.load(layout, changed, layout.references()[changed])
    files = containerd.run(changed, "find", "/opt/athanor", "-name", "*.md", "-o", "-name", "secret")
    assert files == ""


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
