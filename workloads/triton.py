"""Serving with NVIDIA Triton on GPUs, from the same repository as the platform's own server.

Flags: Triton Inference Server, `tritonserver --help`. The repository's layout, polling, the links below and the exit
were tried with the real server 2.51 on CPUs; its image was not: it needs GPUs, and is 16 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.checks import check_range
from workloads.pods import OUTPUT_PATH, Container
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping

MODELS_PATH = f"{OUTPUT_PATH}/models"
_LINKS_PATH = "/tmp/models"  # noqa: S108 - inside the container
_WARMUP = "warmup"
"""Folder of a model with the files that `model_warmup` names (`input_data_file`)."""


@checked("runtime")
@dataclass(frozen=True, kw_only=True)
class Thin:
    """The server of the trainer image: on CPUs, new versions within a second."""

    grpc: bool = False
    """Serve gRPC next to HTTP, on port 8001. Default: HTTP alone."""
    log_requests: Literal["none", "failed", "all"] = "failed"
    """Requests that get a line in the log, with their id and trace: none; those that were refused, failed or slow, at
    most 10 a second; or all, which takes throughput."""
    slow_request_seconds: float = 5.0
    """A request that took longer is slow."""

    def __post_init__(self) -> None:
        """Refuse a time that no request can be faster than."""
        if not 0.001 <= self.slow_request_seconds <= 3600:
            limit = "must be 0.001 to 3600 seconds"
            raise RefusalError("runtime.slow_request_seconds", self.slow_request_seconds, limit, "set such a time")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the server, where they differ from its own defaults."""
        default = Thin()
        given = {
            "log_requests": (self.log_requests, default.log_requests),
            "slow_request_seconds": (self.slow_request_seconds, default.slow_request_seconds),
        }
        return tuple(f"--{name}={value}" for name, (value, usual) in given.items() if value != usual)


@checked("runtime")
@dataclass(frozen=True, kw_only=True)
class Triton:
    """NVIDIA Triton: on GPUs, with gRPC next to HTTP.

    Its libtorch must be at least as new as the torch that exported the model: TorchScript is not forward compatible.
    """

    poll_seconds: int = 5
    """Time between two looks for a new version."""

    def __post_init__(self) -> None:
        """Refuse what would never look, or seldom."""
        check_range("runtime.poll_seconds", self.poll_seconds, 1, 3600)


Runtime = Thin | Triton


def triton_command(runtime: Triton, ports: Mapping[str, int], exit_timeout_seconds: int) -> list[str]:
    """Return the command of a Triton pod.

    Args:
        runtime: How it serves.
        ports: Its own, by the names http, grpc and metrics.
        exit_timeout_seconds: How long requests under way may take after SIGTERM.
    """
    return [
        "tritonserver",
        f"--model-repository={_LINKS_PATH}",
        # `explicit` would never see the versions that training publishes.
        "--model-control-mode=poll",
        f"--repository-poll-secs={runtime.poll_seconds}",
        # It would end for a model that is not there yet, or a damaged version next to one that works.
        "--exit-on-error=false",
        # As the thin server: what config.pbtxt does not say is an error, not a guess.
        "--disable-auto-complete-config",
        f"--exit-timeout-secs={exit_timeout_seconds}",
        f"--http-port={ports['http']}",
        f"--grpc-port={ports['grpc']}",
        f"--metrics-port={ports['metrics']}",
    ]


def repository_links(image: str, model: str, version: int | None) -> Container:
    """Return the init container that gives Triton a repository of links: one model, and if asked one version.

    Polling loads every model of a repository, and Triton has no flag for a version. The links may lead nowhere yet:
    Triton looks again at every poll. But a link to inputs for the warm-up that never come would keep the model from
    loading, so there is one only where they are there when the pod starts.
    """
    folder, source = f"{_LINKS_PATH}/{model}", f"{MODELS_PATH}/{model}"
    if version is None:
        script = f"mkdir -p {_LINKS_PATH} && ln -sfn {source} {folder}"
    else:
        names = ("config.pbtxt", str(version))
        links = (f"ln -sfn {source}/{name} {folder}/{name}" for name in names)
        warmup = f"if [ -d {source}/{_WARMUP} ]; then ln -sfn {source}/{_WARMUP} {folder}/{_WARMUP}; fi"
        script = " && ".join((f"mkdir -p {folder}", warmup, *links))
    return Container(
        name="links",
        image=image,
        command=["/bin/sh", "-c", script],
        resources=Resources(cpu="100m", memory="64Mi"),
        writes_output=False,
    )
