"""Steps of a check other than training on one GPU: the machine, ranks of two GPUs, the model server, TorchScript."""

from __future__ import annotations

import http.client
import importlib.util
import json
import signal
import statistics
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from trainer.hardware_check.site import SkippedError, StepError, free_port
from trainer.hardware_check.training_steps import DIGITS, VARIANTS, gpt_options, speed
from trainer.helpers import hardware
from trainer.network_benchmark.result import read_all

if TYPE_CHECKING:
    from trainer.hardware_check.site import Site
    from trainer.hardware_check.training_steps import Figures

_RANKS = 2
_CONNECTIONS = 8
_STEPS_BEFORE_THE_KILL = 3


def machine(site: Site) -> Figures:
    """Say what the GPU is, and let it multiply matrices."""
    words = ("trainer.helpers.hardware", "--busy_seconds", str(site.scale.busy_seconds))
    report: Figures = _printed(site, "machine", *words)[hardware.KEY]
    of_torch: dict[str, Any] = report["torch"] or {"gpus": []}
    seen = len(of_torch["gpus"])
    if seen != min(site.gpus, 1):
        raise StepError(f"torch sees {seen} GPUs in a process: {report['torch']}")
    site.gpu_bytes = of_torch["gpus"][0]["memory_bytes"] if seen else None
    return report


def sharded(site: Site) -> Figures:
    """Shard a language model over two ranks."""
    _two(site)
    options = (*gpt_options(site, site.scale.gpt_sizes[-1]), "--data_parallel_shard", str(_RANKS), *VARIANTS["bf16"])
    return speed(site, site.trained("sharded", *options, "--max_steps", str(site.scale.steps), ranks=_RANKS))


def lost_rank(site: Site) -> Figures:
    """Kill one of two ranks, and see how soon the other ends, and with which words."""
    _two(site)
    options = (*gpt_options(site, site.scale.gpt_sizes[0]), "--max_steps", "100000", "--peer_timeout_seconds", "5")
    run = site.train("lost-rank", *options, ranks=_RANKS)
    site.wait(run.running, lambda: len(run.events("step")) >= _STEPS_BEFORE_THE_KILL, "its third step")
    begin = time.monotonic()
    run.running.processes[1].send_signal(signal.SIGKILL)
    status, _ = site.finished(run.running)
    seconds = round(time.monotonic() - begin, 1)
    failed = run.events("failed")
    if not failed:
        raise StepError(f"ended with status {status} and no `failed` event:\n{run.running.last_lines()}")
    return {"seconds_to_the_end": seconds, "status": status, "error": failed[-1]["error"]}


def network(site: Site) -> Figures:
    """Measure all-reduce between two ranks."""
    _two(site)
    words = ("trainer.network_benchmark", "--network", "this-machine", "--output_dir", str(site.folder / "network"))
    sizes = ("--max_bytes", str(site.scale.largest_all_reduce), "--rounds", "5", "--image_steps", "0")
    running = site.start("network", (*words, *sizes, "--work_dir", str(site.folder / "network")), ranks=_RANKS)
    if any(site.finished(running)):
        raise StepError(running.last_lines())
    [result] = read_all(site.folder / "network")
    largest = result.all_reduce[-1]
    return {
        "backend": result.backend,
        "smallest_microseconds": round(result.all_reduce[0].microseconds, 1),
        "largest_bytes": largest.num_bytes,
        "bus_gb_per_second": round(largest.bus_gb_per_second, 2),
    }


def _two(site: Site) -> None:
    if site.gpus == 1:
        raise SkippedError("this machine shows one GPU, and the step needs two")


def server(site: Site) -> Figures:
    """Ask our server, which computes on the CPU, for answers of the example's model."""
    if importlib.util.find_spec("trainer.serve") is None:
        raise SkippedError("the model server (trainer.serve) is not there, as in the image of training jobs")
    repository = site.folder / DIGITS / "models"
    if not repository.is_dir():
        raise SkippedError(f"the step {DIGITS} published no model")
    port = free_port()
    words = ("--model_repository", str(repository), "--model_name", "digits", "--drain_delay_seconds", "0")
    ports = ("--http_port", str(port), "--metrics_port", "0")
    running = site.start("server", ("trainer.serve", *words, *ports))
    try:
        site.wait(running, lambda: _ready(port), "the model was served")
        latencies = _asked(port, site.scale.load_seconds)
    finally:
        for process in running.processes:
            process.send_signal(signal.SIGTERM)
    site.finished(running)
    return {"device": "cpu", "connections": _CONNECTIONS, **_load(latencies, site.scale.load_seconds)}


def torchscript(site: Site) -> Figures:
    """Measure a frozen residual network in fp32 and fp16 on the GPU, as a server that computes there runs it."""
    return _printed(site, "torchscript", "trainer.hardware_check.torchscript_speed", "cuda" if site.gpus else "cpu")


def plain_loop(site: Site, size: str) -> Figures:
    """Measure the language model with nothing around it, which is what the trainer can reach at most."""
    numbers = (site.gpt_batch, site.scale.steps, site.scale.warm_up)
    words = ("trainer.hardware_check.plain_loop", size, *map(str, numbers))
    return _printed(site, f"plain-loop-{size}", *words)


def _printed(site: Site, name: str, *words: str) -> Figures:
    """Run a program and return the figures that it prints in a line."""
    running = site.start(name, words)
    [status] = site.finished(running)
    line = next((line for line in running.said().splitlines() if line.startswith("{")), "")
    if status or not line:
        raise StepError(f"ended with status {status}:\n{running.last_lines()}")
    return json.loads(line)


def _ready(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/v2/models/digits/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False


def _asked(port: int, seconds: float) -> list[float]:
    """Ask one image at a time on several connections, and return how long each answer took."""
    image = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}
    body = json.dumps({"inputs": [image]})
    latencies: list[float] = []
    failures: list[str] = []

    def ask() -> None:
        until = time.monotonic() + seconds
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            while (begin := time.monotonic()) < until:
                connection.request("POST", "/v2/models/digits/infer", body)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != http.HTTPStatus.OK:
                    failures.append(f"{answer.status}: {content[:200]!r}")
                    return
                latencies.append(time.monotonic() - begin)

    threads = [threading.Thread(target=ask) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures or not latencies:
        raise StepError(f"{len(failures)} requests failed, such as {failures[:1]}")
    return latencies


def _load(latencies: list[float], seconds: float) -> dict[str, Any]:
    ordered = sorted(latencies)
    return {
        "requests_per_second": round(len(ordered) / seconds),
        "median_milliseconds": round(1000 * statistics.median(ordered), 2),
        "p99_milliseconds": round(1000 * ordered[len(ordered) * 99 // 100], 2),
    }
