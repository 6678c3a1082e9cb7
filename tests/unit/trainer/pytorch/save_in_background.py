"""One rank of a group that saves sharded states in the background: `save_in_background FOLDER`.

Prints what happened as one JSON object; rank 0 leaves the weights that were saved and those that another layout loaded.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.manager import CheckpointManager
from trainer.pytorch.checkpoints.saves import Saves
from trainer.pytorch.distributed import Distributed, DistributedConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.layout import Layout

GPT = GptConfig(layers=2, heads=4, width=32, context=16, vocabulary=64)
CONFIG = CheckpointConfig(checkpoint_mode="async", checkpoint_interval_steps=1, keep_latest_k=2)

DIVIDED = ({"tensor_parallel": 2}, {"pipeline_parallel": 2, "microbatches": 2})


class Model:
    """A model in a layout, its optimizer, and what a run saves of them."""

    def __init__(self, distributed: Distributed, **degrees: int) -> None:
        parallel = ParallelConfig(**degrees)
        layout = Layout(parallel.degrees(distributed.world_size), "cpu")
        self.model = Recipe(model=GPT, parallel=parallel, seed=distributed.world_size).build(layout, distributed.device)
        self.optimizer = OptimizerConfig().build(self.model.module.parameters())
        inputs = torch.zeros(4, 16, dtype=torch.int64)
        self.model.forward_backward(inputs, inputs, lambda *_: None)
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        return state.state_dict(self.model, self.optimizer)

    def change(self) -> None:
        """Change every parameter in place, as a step does."""
        with torch.no_grad():
            for parameter in self.model.module.parameters():
                parameter.add_(1.0)

    def whole(self) -> dict[str, torch.Tensor] | None:
        return state.whole_model(self.model)


def main() -> None:
    """Save twice in the background, once without space, once without a background process; then load."""
    world_size, rank, base = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), Path(sys.argv[1])
    torch.set_num_threads(1)
    distributed = Distributed(DistributedConfig(peer_timeout_seconds=0))
    folder = base / "checkpoints"
    distributed.on_main(lambda: folder.mkdir(exist_ok=True))
    events: list[dict[str, Any]] = []
    log = SimpleNamespace(write=lambda event, **fields: events.append({"event": event, **fields}))
    metrics = SimpleNamespace(on_checkpoint=lambda _seconds: None, on_checkpoint_failure=lambda: None)
    manager = CheckpointManager(CONFIG, folder, distributed, settings={})
    saves = Saves(CONFIG, manager, distributed, metrics, log)
    first = Model(distributed, data_parallel_shard=world_size)
    try:
        saves.at_interval(1, first.state)
        process = saves._background._process
        # what torchrun sends to the process group of a rank when the pod is to stop: the process must go on, also where
        # it is still importing torch
        os.kill(process.pid, signal.SIGTERM)
        # what is written is the state at the save, whatever training does meanwhile
        expected = first.whole()
        saves.before_update()
        first.change()
        saves._running.answer.result()
        saves.look()
        os.kill(process.pid, signal.SIGTERM)
        # no file of the next save may grow, as on a full volume
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        saves.at_interval(2, first.state)
        saves.wait()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        loaded = whole_after_load(manager, Model(distributed, tensor_parallel=2))
        divided = [save_divided(saves, base / "divided", distributed, **degrees) for degrees in DIVIDED]
        # one rank loses its process in the middle of a save: the others must not wait for it forever
        if rank == world_size - 1:
            os.kill(process.pid, signal.SIGSTOP)
        saves.at_interval(3, first.state)
        if rank == world_size - 1:
            os.kill(process.pid, signal.SIGKILL)
        saves.wait()
        saves.at_interval(4, first.state)
        saves.now(5, first.state)
        if distributed.is_main:
            torch.save({"expected": expected, "loaded": loaded, "divided": divided}, base / "weights.pt")
    finally:
        saves.close()
        distributed.close()
    print(json.dumps({"rank": rank, "events": events, "alive": process.is_alive()}))


def save_divided(
    saves: Saves, folder: Path, distributed: Distributed, **degrees: int
) -> tuple[dict[str, torch.Tensor] | None, ...]:
    """Save another layout in the same background process; return the weights, and those that shards load of it."""
    folder = folder / "-".join(degrees)
    distributed.on_main(lambda: folder.mkdir(parents=True))
    manager = CheckpointManager(CONFIG, folder, distributed, settings={})
    former = saves._manager, saves._events
    saves._manager, saves._events = manager, SimpleNamespace(write=lambda *_, **__: None)
    model = Model(distributed, **degrees)
    saves.at_interval(1, model.state)
    saves.wait()
    saves._manager, saves._events = former
    return model.whole(), whole_after_load(manager, Model(distributed, data_parallel_shard=2))


def whole_after_load(manager: CheckpointManager, model: Model) -> dict[str, torch.Tensor] | None:
    latest = manager.find_latest()
    assert latest is not None
    saved = model.state()
    manager.load(latest, saved)
    state.load_state_dict(model.model, model.optimizer, saved)
    return model.whole()


if __name__ == "__main__":
    main()
