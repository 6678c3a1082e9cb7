"""One rank of a run on a folder of images: `train_and_note_samples.py DATA OUTPUT STOP_AT WORKERS`.

It is asked to stop when it begins a step; 0 trains to the end. Rank 0 prints as JSON which images each rank has had in
which step: [steps, ranks, images], each a part of the SHA-256 of its pixels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch.config import TrainConfig
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig

if TYPE_CHECKING:
    import torch


def main() -> None:
    data_dir, output, stop_at, workers = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5])
    trainer = Trainer(
        TrainConfig(
            data=ImageFolderConfig(data_dir=data_dir, batch_size=128, data_workers=workers),
            output_dir=output,
            work_dir=output / "work",
            epochs=2,
            log_interval_steps=1,
            model=DigitsCnnConfig(width=4, dropout=0.0),
            export=ExportConfig(model_name="folder"),
        )
    )
    steps: list[list[str]] = []

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if module.training:
            steps.append([hashlib.sha256(image.numpy().tobytes()).hexdigest()[:8] for image in inputs[0]])

    trainer.model.register_forward_pre_hook(note)
    try:
        trainer.train(StopAt(trainer, stop_at))
        of_ranks = trainer.distributed.gather(steps)
        if trainer.distributed.is_main:
            print(json.dumps(list(zip(*of_ranks, strict=True))))
    finally:
        trainer.close()


if __name__ == "__main__":
    main()
