"""Our model server next to tritonserver, MLServer, LitServe and KServe: one TorchScript model, the same requests.

All run at the same time and get load in turn, from a generator in a process of its own; each computes with one thread.
tritonserver is the program inside the wheel nvidia-pytriton, which has the Python backend alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Group
from tritonclient.grpc import service_pb2

from benchmarks import serving_load
from benchmarks.compression import small_cnn
from benchmarks.peer_servers.loaded_model import load
from benchmarks.resnet import resnet18
from benchmarks.rounds import spread
from benchmarks.serving_servers import (
    CEILING,
    KSERVE,
    LITSERVE,
    MLSERVER,
    MODEL,
    OURS,
    OURS_IN_IMAGE,
    PACKAGES,
    PATH,
    TRITON,
    Server,
    body,
    running,
)  # fmt: skip
from tools.images.python_packages import SITE_PACKAGES
from tools.tables import table
from trainer.model_repository import torchscript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.progress import Progress

    Measure = Callable[[], float]

ROUNDS = 3
SECONDS = 1.5
"""Of load on one server in one round."""
_CONNECTIONS = (16, 64)
_PIXELS, _RESNET_PIXELS, _RESNET_BATCH = 32, 224, 16
_RESNET_ROUNDS, _RESNET_SECONDS = 3, 5.0
_ALONE_SECONDS = 5.0
_LIMIT_COLUMNS = ["", "requests/s", "mean batch", "the model alone at that batch, images/s", "share"]
_IMPORT_TORCH = """
import torch
from pathlib import Path
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])
"""


def measure(report: Progress) -> Group:
    """Return the tables: medians of rounds in which the servers take turns."""
    with tempfile.TemporaryDirectory() as folder:
        requests = _write_requests(Path(folder))
        small = _small_servers(Path(folder), requests, report)
        return Group(*small, _resnet_table(Path(folder), requests["resnet"], report))


def _small_servers(folder: Path, requests: Mapping[str, Path], report: Progress) -> list[object]:
    model = folder / "cnn.pt"
    torch.manual_seed(0)
    torchscript.save_frozen(small_cnn(), model, [torch.rand(2, 3, _PIXELS, _PIXELS)])
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        missing: list[str] = []
        for name in (OURS, TRITON, MLSERVER, LITSERVE, KSERVE, CEILING):
            report.detail(f"starting {name}")
            try:
                servers[name] = stack.enter_context(running(name, model, _PIXELS, folder / name, report))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                if name not in PACKAGES:
                    raise
                missing.append(f"{name}: not measured, {error}")
        memory = [*_memory_rows(servers), *_image_memory_rows(model, folder, report)]
        speed, loads, batches = _speed_rows(servers, requests, report)
        tail = _tail_row(servers, requests["json"], loads, report)
    limits = _limit_rows(model, batches, report)
    names = [name for name in servers if name != CEILING]
    title = f"Small CNN [1, 3, {_PIXELS}, {_PIXELS}], {ROUNDS} interleaved rounds of {SECONDS:g} s, median (range)"
    caption = "\n".join(missing) or None
    return [
        table(f"{title}: requests/s", ["", *names, "ours over them", CEILING], speed, caption),
        table("Our server and its limit, the model alone in a loop on one thread", _LIMIT_COLUMNS, limits),
        table(f"{title}: p99", ["requests/s", *_pair(servers), "ours over Triton's"], [tail]) if tail else "",
        table("Resident memory of an idle server with this model", ["", "MB", "processes"], memory),
    ]


def _pair(servers: Mapping[str, Server]) -> list[str]:
    return [name for name in (OURS, TRITON) if name in servers]


def _speed_rows(
    servers: Mapping[str, Server], requests: Mapping[str, Path], report: Progress
) -> tuple[list[list[str]], dict[str, float], dict[str, tuple[float, float]]]:
    """Return a row for each way to ask, and the requests per second of JSON on the fewest connections by server.

    Third, of our server by way to ask: requests per second and the mean batch.
    """
    rows: list[list[str]] = []
    batches: dict[str, tuple[float, float]] = {}
    json_medians: dict[str, float] = {}
    pair = _pair(servers)
    asked = {"json": [name for name in servers if name != CEILING], "binary": pair, "grpc": pair}
    for kind, names in asked.items():
        for connections in _CONNECTIONS:
            measures = {
                name: _saturating(servers[name], kind, requests[kind], connections) for name in (*names, CEILING)
            }
            before = servers[OURS].served()
            speeds = _rounds(measures, ROUNDS, lambda what, at=f"{kind}, {connections}": report.detail(f"{at}: {what}"))
            medians = {name: statistics.median(values) for name, values in speeds.items()}
            images, calls = (after - earlier for after, earlier in zip(servers[OURS].served(), before, strict=True))
            batches[f"{kind}, {connections}"] = medians[OURS], images / calls
            json_medians = json_medians or medians
            cells = [spread(speeds[name], "", 0) if name in speeds else "" for name in asked["json"]]
            ratios = ", ".join(f"{medians[OURS] / medians[name]:.2f}" for name in names[1:])
            rows.append([f"{kind}, {connections}", *cells, ratios, f"{medians[CEILING]:.0f}"])
    return rows, json_medians, batches


def _limit_rows(model: Path, batches: Mapping[str, tuple[float, float]], report: Progress) -> list[list[str]]:
    rows: list[list[str]] = []
    for name, (per_second, batch) in batches.items():
        report.detail(f"{name}: the model alone")
        alone = [_alone(model, max(1, round(batch)), _PIXELS) for _ in range(ROUNDS)]
        share = f"{per_second / statistics.median(alone):.2f}"
        rows.append([name, f"{per_second:.0f}", f"{batch:.1f}", spread(alone, "", 0), share])
    return rows


def _saturating(server: Server, kind: str, request: Path, connections: int) -> Measure:
    def per_second() -> float:
        if kind == "grpc":
            load = serving_load.grpc(server.grpc_port, request, connections=connections, seconds=SECONDS)
        else:
            load = serving_load.http(server.http_port, request, connections=connections, seconds=SECONDS)
        return load.per_second

    return per_second


def _tail_row(
    servers: Mapping[str, Server], request: Path, loads: Mapping[str, float], report: Progress
) -> list[str] | None:
    """Return the milliseconds that 99 % of requests stay below, at half of what the slower of the two takes."""
    pair = _pair(servers)
    rate = min(loads[name] for name in pair) / 2

    def milliseconds(server: Server) -> float:
        load = serving_load.http(
            server.http_port, request, connections=_CONNECTIONS[-1], seconds=2 * SECONDS, rate=rate
        )
        return load.p99_seconds * 1000

    measures = {name: lambda server=servers[name]: milliseconds(server) for name in pair}
    tails = _rounds(measures, ROUNDS, lambda what: report.detail(f"p99: {what}"))
    if len(pair) == 1:
        return None
    ratio = statistics.median(tails[OURS]) / statistics.median(tails[TRITON])
    return [f"{rate:.0f}", *(spread(values, "ms", 1) for values in tails.values()), f"{ratio:.2f}"]


def _memory_rows(servers: Mapping[str, Server]) -> list[list[str]]:
    rows: list[list[str]] = []
    for name, server in servers.items():
        if name != CEILING:
            size, processes = server.resident_bytes()
            rows.append([name, f"{size / 1e6:.0f}", str(processes)])
    return [*rows, [f"import torch, {torch.__version__}", _memory_of_torch(os.environ), "1"]]


def _image_memory_rows(model: Path, folder: Path, report: Progress) -> list[list[str]]:
    """Return the same of our server as its pods have it: without NVIDIA's libraries, which torch would load."""
    report.detail(f"installing what {OURS_IN_IMAGE} has")
    with running(OURS_IN_IMAGE, model, _PIXELS, folder / "in-image", report) as server:
        size, processes = server.resident_bytes()
        packages = folder / "in-image" / "image" / SITE_PACKAGES
        alone = _memory_of_torch({**os.environ, "PYTHONPATH": str(packages)})
    return [[OURS_IN_IMAGE, f"{size / 1e6:.0f}", str(processes)], ["import torch, there", alone, "1"]]


def _memory_of_torch(environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-c", _IMPORT_TORCH]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return f"{int(printed.stdout) * 1024 / 1e6:.0f}"


def _resnet_table(folder: Path, request: Path, report: Progress) -> object:
    """Return images per second through our server, two requests under way, and of the model alone, one thread each."""
    model = folder / "resnet.pt"
    torchscript.save_frozen(resnet18(), model, [torch.rand(2, 3, _RESNET_PIXELS, _RESNET_PIXELS)])
    report.detail("starting ResNet-18")
    with running(OURS, model, _RESNET_PIXELS, folder / "resnet", report) as server:

        def served() -> float:
            load = serving_load.http(server.http_port, request, connections=2, seconds=_RESNET_SECONDS)
            return load.per_second * _RESNET_BATCH

        measures = {"served": served, "alone": lambda: _alone(model, _RESNET_BATCH, _RESNET_PIXELS)}
        speeds = _rounds(measures, _RESNET_ROUNDS, lambda what: report.detail(f"ResNet-18: {what}"))
    ratio = statistics.median(speeds["served"]) / statistics.median(speeds["alone"])
    title = f"ResNet-18, batches of {_RESNET_BATCH} as binary tensors: images/s, {_RESNET_ROUNDS} interleaved rounds"
    row = [spread(speeds["served"], "", 1), spread(speeds["alone"], "", 1), f"{ratio:.3f}"]
    return table(title, ["athanor", "the model alone in a loop", "ratio"], [row])


def _alone(model: Path, batch: int, pixels: int) -> float:
    command = [sys.executable, "-m", "benchmarks.serving", str(model), str(batch), str(pixels)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def loop_alone(model: str, size: int, pixels: int) -> None:
    """Print the images per second of the model on one thread, in this process and without a server."""
    infer = load(model)
    batch = torch.rand(size, 3, pixels, pixels).numpy()
    for _ in range(3):
        infer(batch)
    begin, calls = time.perf_counter(), 0
    while (seconds := time.perf_counter() - begin) < _ALONE_SECONDS:
        infer(batch)
        calls += 1
    print(calls * size / seconds)


def _rounds(measures: Mapping[str, Measure], rounds: int, say: Callable[[str], object]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name, run in measures.items():
            say(f"round {number + 1} of {rounds}, {name}")
            values[name].append(run())
    return values


def _write_requests(folder: Path) -> dict[str, Path]:
    document = body(_PIXELS)
    image = np.array(document["inputs"][0]["data"], np.float32).tobytes()  # pyright: ignore[reportIndexIssue]
    contents = {
        "json": _http_request(json.dumps(document).encode()),
        "binary": _http_binary_request(image, (1, 3, _PIXELS, _PIXELS)),
        "grpc": _grpc_request(image),
        "resnet": _http_binary_request(
            np.random.default_rng(0).random(_RESNET_BATCH * 3 * _RESNET_PIXELS**2, np.float32).tobytes(),
            (_RESNET_BATCH, 3, _RESNET_PIXELS, _RESNET_PIXELS),
        ),
    }
    files = {kind: folder / f"{kind}.request" for kind in contents}
    for kind, content in contents.items():
        files[kind].write_bytes(content)
    return files


def _http_request(content: bytes, header_length: int | None = None) -> bytes:
    binary = "" if header_length is None else f"inference-header-content-length: {header_length}\r\n"
    kind = "application/json" if header_length is None else "application/octet-stream"
    head = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n{binary}"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def _http_binary_request(data: bytes, shape: tuple[int, ...]) -> bytes:
    parameters = {"binary_data_size": len(data)}
    document = {
        "inputs": [{"name": "images", "datatype": "FP32", "shape": shape, "parameters": parameters}],
        "outputs": [{"name": "logits", "parameters": {"binary_data": True}}],
    }
    header = json.dumps(document).encode()
    return _http_request(header + data, len(header))


def _grpc_request(image: bytes) -> bytes:
    message = service_pb2.ModelInferRequest(model_name=MODEL)
    message.inputs.add(name="images", datatype="FP32", shape=[1, 3, _PIXELS, _PIXELS])
    message.raw_input_contents.append(image)
    return message.SerializeToString()


if __name__ == "__main__":
    loop_alone(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
