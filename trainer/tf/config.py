"""The command lines of the TensorFlow programs; the same names as in trainer/pytorch/config.py. Needs no TensorFlow."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainer.common.validation import at_least, file_name, more_than
from trainer.training import cifar
from trainer.training.folders import RunFolders
from trainer.training.metrics import MetricsConfig

MODELS_FOLDER = "models"


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Train a small network on images in CIFAR-10's format."""

    data_dir: Path
    """Folder of the input data: CIFAR-10's binary version, or what `python -m trainer.tf.prepare_data` made."""
    output_dir: Path
    """Folder for everything that outlives the pods, the same volume for all of them."""
    work_dir: Path = Path(tempfile.gettempdir()) / "athanor"
    """Scratch folder of this process: heartbeat files."""
    log_dir: Path | None = None
    """Folder of the event logs, one file per task; without it <output_dir>/<run_name>/logs."""
    run_name: str = "default"
    """Name of this training. Started again under the same name it resumes, or ends at once if it is finished."""
    num_gpu: int | None = None
    """GPUs of this process; 0 computes on the CPU. Default: all that it sees, the CPU without any."""
    steps: int = 300
    """Updates of the weights."""
    batch_size: int = 64
    """Samples of one update. The number of those that share an update must divide it."""
    learning_rate: float = 0.02
    """Step size of gradient descent."""
    momentum: float = 0.9
    """Part of the former update that is added to the next."""
    seed: int = 0
    """Decides initial weights and order of samples."""
    checkpoint_interval_steps: int = 50
    """Save, and write the mean loss to the event log, after every so many steps."""
    keep_latest_k: int = 3
    """Checkpoints to keep; older ones are removed after a save."""
    init_timeout_seconds: float = 1800
    """Longest wait for the other tasks at the start: pods start and images load at their own pace."""
    train_timeout_seconds: float = 300
    """Longest wait for the next step, for example while a lost worker is started again."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)

    def __post_init__(self) -> None:
        file_name("run_name", self.run_name)
        if self.run_name == MODELS_FOLDER:
            raise ValueError(f"run_name={self.run_name!r}: is the folder of the model repository. Fix: another name")
        if self.num_gpu is not None:
            at_least("num_gpu", self.num_gpu, 0)
        for name in ("seed", "momentum"):
            at_least(name, getattr(self, name), 0)
        for name in ("steps", "batch_size", "checkpoint_interval_steps", "keep_latest_k"):
            at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "init_timeout_seconds", "train_timeout_seconds"):
            more_than(name, getattr(self, name), 0)
        if self.momentum >= 1:
            raise ValueError(f"momentum={self.momentum}: must be less than 1")

    @property
    def folders(self) -> RunFolders:
        """Where this run writes."""
        run = self.output_dir / self.run_name
        return RunFolders(
            run=run, models=self.output_dir / MODELS_FOLDER, logs=self.log_dir or run / "logs", work=self.work_dir
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the course of the loss, as JSON values: a resumed run must have the same."""
        names = ("batch_size", "learning_rate", "momentum", "seed")
        return {
            "dataset_sha256": cifar.fingerprint(self.data_dir),
            **{name: getattr(self, name) for name in names},
        }


@dataclass(frozen=True, kw_only=True)
class ParameterServerConfig(RunConfig):
    """Train with parameter servers; every role runs this program and finds itself in TF_CONFIG."""

    mode: Literal["async", "sync"] = "async"
    """async: each worker updates the weights when it is done; sync: all workers share every update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_gpu is not None and self.num_gpu > 1:
            fix = "Fix: one GPU per worker and more workers"
            raise ValueError(f"num_gpu={self.num_gpu}: a worker of a parameter server uses at most 1. {fix}")

    def settings(self) -> dict[str, Any]:
        """Add the mode: with it the same step means another thing."""
        return {**super().settings(), "mode": self.mode}
