"""The servers that `python -m benchmarks serving` compares: what starts each, and the model they all serve."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers import installed
from tools.images import python_packages
from tools.local_cluster.node import tail
from trainer.common.files import sha256_of, write_json_atomically
from trainer.image.variant import CPU, PYTORCH
from trainer.model_repository.layout import CONFIG_FILE, MANIFEST_FILE, MODEL_FILE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from tools.progress import Progress

OURS, TRITON, MLSERVER, LITSERVE, KSERVE = "athanor", "tritonserver", "MLServer", "LitServe", "KServe"
OURS_IN_IMAGE = "athanor, with the packages of its image for CPUs"
CEILING = "no server"
PACKAGES = {
    TRITON: ("nvidia-pytriton==0.7.0",),
    # with uvloop 0.22 and newer MLServer 1.7.1 finds no event loop
    MLSERVER: ("mlserver==1.7.1", "uvloop==0.21.0"),
    LITSERVE: ("litserve==0.2.19",),
    KSERVE: ("kserve==0.21.0",),
}
MODEL = "cnn"
PATH = f"/v2/models/{MODEL}/infer"
_REPOSITORY = Path(__file__).resolve().parents[1]
_TRITON_IMPORT = "from benchmarks.peer_servers.triton_model import TritonPythonModel"
_START_SECONDS, _STOP_SECONDS, _LOOK_SECONDS = 90, 5, 0.2
_CONFIG = """name: "%s"
%s
max_batch_size: 16
input [ { name: "images" data_type: TYPE_FP32 dims: [ 3, %d, %d ] } ]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ 10 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching { }
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    http_port: int
    grpc_port: int
    metrics_port: int

    def served(self) -> tuple[float, float]:
        """Return how many inputs the model has computed, and in how many calls: of a server with Triton's metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=_START_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        counts = (_value(lines, name) for name in ("nv_inference_count", "nv_inference_exec_count"))
        return next(counts), next(counts)

    def resident_bytes(self) -> tuple[int, int]:
        """Return the resident memory of all its processes together, and how many they are."""
        sizes = [_resident_bytes(pid) for pid in _family(self.process.pid)]
        return sum(sizes), len(sizes)


@contextmanager
def running(name: str, model: Path, pixels: int, folder: Path, report: Progress) -> Generator[Server]:
    """Run a server while the block runs.

    Args:
        name: Which.
        model: TorchScript, of images float32 [N, 3, pixels, pixels] to logits [N, 10].
        pixels: Width and height.
        folder: Where its files go; a new one.
        report: Where to say what is installed.

    Raises:
        subprocess.CalledProcessError: the peer cannot be installed.
        RuntimeError: the server does not answer.
    """
    folder.mkdir()
    site = _packages_of(name, folder, report)
    ports = _free_ports(3)
    command, variables = _COMMANDS[name](model, pixels, folder, ports, site)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _python_path(site), **variables}
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        ) as process,
    ):
        try:
            server = Server(process=process, http_port=ports[0], grpc_port=ports[1], metrics_port=ports[2])
            _await_answer(name, server, pixels, log)
            yield server
        finally:
            _stop(process)


def body(pixels: int) -> dict[str, object]:
    """Return a request of one image in JSON; the same numbers each time."""
    count = 3 * pixels * pixels
    data = [round(number * 37 % 1009 / 1009, 4) for number in range(count)]
    return {"inputs": [{"name": "images", "datatype": "FP32", "shape": [1, 3, pixels, pixels], "data": data}]}


def _packages_of(name: str, folder: Path, report: Progress) -> Path | None:
    """Return where a server's packages are that this environment lacks, or has in another form; None for neither.

    Raises:
        subprocess.CalledProcessError: they cannot be installed.
    """
    if name == OURS_IN_IMAGE:
        root = folder / "image"
        python_packages.install(root, PYTORCH, CPU)
        return root / python_packages.SITE_PACKAGES
    return installed(PACKAGES[name], report, with_dependencies=True) if name in PACKAGES else None


def _ours(
    model: Path, pixels: int, folder: Path, ports: list[int], _site: Path | None
) -> tuple[list[str], dict[str, str]]:
    _write_repository(folder, model, 'platform: "pytorch_libtorch"', pixels)
    http, grpc, metrics = (str(port) for port in ports)
    options = ["--model_repository", str(folder / "models"), "--model_name", MODEL, "--num_cpu_threads", "1"]
    port_options = ["--http_port", http, "--grpc_port", grpc, "--metrics_port", metrics]
    drain = ["--drain_delay_seconds", "0", "--drain_timeout_seconds", "5"]
    return [sys.executable, "-m", "trainer.serve", *options, *port_options, *drain], {}


def _triton(
    model: Path, pixels: int, folder: Path, ports: list[int], site: Path | None
) -> tuple[list[str], dict[str, str]]:
    """Return what runs the program inside the wheel, with its Python backend: it has no other."""
    assert site is not None
    _write_repository(folder, model, 'backend: "python"', pixels)
    # its interpreter takes no PYTHONPATH; the peer's packages first, since the backend reads arrays of NumPy 1 alone
    shim = f"import sys\nsys.path[:0] = {[str(site), str(_REPOSITORY), *sys.path]}\n{_TRITON_IMPORT}\n"
    (folder / "models" / MODEL / "1" / "model.py").write_text(shim)
    wheel = site / "pytriton" / "tritonserver"
    backend = folder / "backends" / "python"
    shutil.copytree(wheel / "backends" / "python", backend)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(wheel / "python_backend_stubs" / version, backend, dirs_exist_ok=True)
    program = folder / "tritonserver"
    shutil.copy(wheel / "bin" / "tritonserver", program)
    for file in (program, backend / "triton_python_backend_stub"):
        file.chmod(0o755)
    http, grpc, metrics = (str(port) for port in ports)
    repositories = [f"--backend-directory={backend.parent}", f"--model-repository={folder / 'models'}"]
    listening = [f"--http-port={http}", f"--grpc-port={grpc}", f"--metrics-port={metrics}", "--http-address=127.0.0.1"]
    libraries = os.pathsep.join([str(site / "nvidia_pytriton.libs"), sysconfig.get_config_var("LIBDIR")])
    return [str(program), *repositories, *listening, "--allow-gpu-metrics=false"], {"LD_LIBRARY_PATH": libraries}


def _mlserver(
    model: Path, _pixels: int, folder: Path, ports: list[int], _site: Path | None
) -> tuple[list[str], dict[str, str]]:
    settings = {
        "host": "127.0.0.1",
        "http_port": ports[0],
        "grpc_port": ports[1],
        "metrics_port": ports[2],
        "parallel_workers": 0,
        "debug": False,
    }
    runtime = "benchmarks.peer_servers.mlserver_runtime.Runtime"
    model_settings = {"name": MODEL, "implementation": runtime, "parameters": {"uri": str(model)}}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps(model_settings))
    return [sys.executable, "-c", "from mlserver.cli import main; main()", "start", str(folder)], {}


def _litserve(
    model: Path, _pixels: int, _folder: Path, ports: list[int], _site: Path | None
) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "benchmarks.peer_servers.litserve_server", str(model), str(ports[0])], {}


def _kserve(
    model: Path, _pixels: int, _folder: Path, ports: list[int], _site: Path | None
) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "benchmarks.peer_servers.kserve_server", str(model), str(ports[0])], {}


def _ceiling(
    _model: Path, _pixels: int, _folder: Path, ports: list[int], _site: Path | None
) -> tuple[list[str], dict[str, str]]:
    words = ["-m", "benchmarks.peer_servers.ceiling", str(ports[0]), str(ports[1])]
    return [sys.executable, *words], {}


_COMMANDS = {
    **dict.fromkeys((OURS, OURS_IN_IMAGE), _ours),
    TRITON: _triton,
    MLSERVER: _mlserver,
    LITSERVE: _litserve,
    KSERVE: _kserve,
    CEILING: _ceiling,
}


def _python_path(first: Path | None) -> str:
    return os.pathsep.join([*([str(first)] if first else []), str(_REPOSITORY)])


def _write_repository(folder: Path, model: Path, platform: str, pixels: int) -> None:
    version = folder / "models" / MODEL / "1"
    version.mkdir(parents=True)
    shutil.copy(model, version / MODEL_FILE)
    # optimised after loading, as the peers have it
    manifest = {"sha256": sha256_of(model), "optimization": {"used": True}}
    write_json_atomically(version / MANIFEST_FILE, manifest)
    (version.parent / CONFIG_FILE).write_text(_CONFIG % (MODEL, platform, pixels, pixels))


def _await_answer(name: str, server: Server, pixels: int, log: Path) -> None:
    """Wait for the first answer of the model: being ready means something else to each."""
    content = json.dumps(body(pixels)).encode()
    headers: Mapping[str, str] = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{PATH}", content, headers)
    deadline = time.monotonic() + _START_SECONDS
    refusal = ""
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"{name} ended; its log ends with:\n{tail(log)}")
        try:
            with urllib.request.urlopen(request, timeout=_START_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            refusal = error.read().decode(errors="replace")
            time.sleep(_LOOK_SECONDS)
            continue
        except OSError as error:
            refusal = str(error)
            time.sleep(_LOOK_SECONDS)
            continue
        return
    raise RuntimeError(f"{name} does not answer after {_START_SECONDS} s: {refusal}; its log ends with:\n{tail(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server with all the processes that it started."""
    family = _family(process.pid)
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    for pid in family:
        try:
            # a worker may have a group of its own
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(each for file in children for child in file.read_text().split() for each in _family(int(child)))]


def _value(lines: list[str], name: str) -> float:
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def _resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
