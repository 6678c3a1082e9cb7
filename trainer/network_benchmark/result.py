"""The result of one run, as a file to compare later runs with: `<output_dir>/network/<network>.json`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.common.files import read_json, write_json_atomically
from trainer.network_benchmark.all_reduce import AllReduce

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "network"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """The numbers of one network and where they come from."""

    network: str
    run_name: str
    date: str
    """Time of the run's end: RFC 3339, UTC."""
    world_size: int
    ranks_per_pod: int
    backend: str
    """Library of the collectives, `gloo` or `nccl`."""
    device: str
    """Name of the GPU, or `cpu`."""
    hosts: list[str]
    """Host name of each rank, in the order of ranks."""
    torch_version: str
    all_reduce: list[AllReduce]
    """Results by growing size."""
    image_batch_size: int
    image_width: int
    images_per_second_per_rank: float | None
    """Mean over the ranks; None where it was not measured."""

    @property
    def images_per_second(self) -> float | None:
        """Of all ranks together."""
        each = self.images_per_second_per_rank
        return None if each is None else each * self.world_size

    @property
    def setting(self) -> tuple[Any, ...]:
        """The settings that must be equal for two networks to be compared."""
        return (
            *(self.world_size, self.ranks_per_pod, self.backend, self.device),
            *(self.image_batch_size, self.image_width),
        )


def write(result: Result, output_dir: Path) -> Path:
    """Write a result, replacing a former one of the same network, and return its path.

    Raises:
        OSError: the folder is missing or cannot be written.
    """
    path = output_dir / FOLDER / f"{result.network}.json"
    write_json_atomically(path, {"format_version": FORMAT_VERSION, **dataclasses.asdict(result)})
    return path


def read_all(output_dir: Path) -> list[Result]:
    """Return the results of all networks, the oldest first; files of another format or none of ours are left out."""
    results = (_from_document(read_json(path)) for path in (output_dir / FOLDER).glob("*.json"))
    return sorted((result for result in results if result), key=lambda result: (result.date, result.network))


def _from_document(document: dict[str, Any] | None) -> Result | None:
    if document is None or document.pop("format_version", None) != FORMAT_VERSION:
        return None
    try:
        all_reduce = [AllReduce(**size) for size in document.pop("all_reduce")]
        return Result(**document, all_reduce=all_reduce)
    except (KeyError, TypeError):
        return None
