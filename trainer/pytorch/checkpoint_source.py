"""A trained model from files: any network with its weights, or a checkpoint of a run of `trainer.train`."""

from __future__ import annotations

import hashlib
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from trainer.common.files import sha256_of
from trainer.common.validation import NAME_PATTERN, SettingsError, file_name
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.checkpoints.reader import load_state
from trainer.pytorch.checkpoints.stored import Step, checkpoint_of_run
from trainer.pytorch.examples import interface
from trainer.pytorch.model_files import VERIFIED_SAMPLES
from trainer.pytorch.result import source_commit
from trainer.pytorch.source_data import read_data, run_model
from trainer.pytorch.source_error import SourceError, reason
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.pytorch.user_code import from_file

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor


def build(network: str) -> nn.Module:
    """Return the result of calling `FILE.py:NAME` without arguments.

    Raises:
        SourceError: there is no such file or name, its code fails, or what it returns is not a module.
    """
    file, _, name = network.rpartition(":")
    try:
        define = from_file("network", network)
    except SettingsError as error:
        raise SourceError(str(error)) from error
    if not callable(define):
        raise SourceError(f"network={network!r}: {name} cannot be called. Fix: a class or function of {file}")
    try:
        built: object = define()
    except (Exception, SystemExit) as error:
        fix = f"Fix: a {name} that is called without arguments"
        raise SourceError(f"network={network!r}: {name}() fails: {reason(error, file)}. {fix}") from error
    if not isinstance(built, nn.Module):
        raise SourceError(f"network={network!r}: {name}() returns {type(built).__name__}; must be a torch.nn.Module")
    return built


@dataclass(frozen=True, kw_only=True)
class CheckpointSource:
    """Where a trained model and its data are."""

    checkpoint: Path | None = None
    """A state dict that torch.save wrote, or the folder of a run of trainer.train. None: `network` has its weights."""
    data: Path | None = None
    """Of a classifier: folder of the run's data (its --data_dir), or a NumPy .npz file with training_inputs,
    training_labels, held_out_inputs and held_out_labels: float32 [N, …] and int64 [N]."""
    examples: str | None = None
    """Of any other network, in place of data: FILE.py:NAME of a dict of tensors [rows, …] by the names of forward's
    arguments, a list of such dicts (sizes in which they differ are free), or a function that returns either."""
    unbatched: bool = False
    """Whether the network of `examples` takes no batches: a call answers one request, and tensors are [any, …]."""
    step: Step | None = None
    """Of a run: step of the checkpoint to take, or the one that --keep_best has kept. None: the latest that is
    intact."""
    network: str | None = None
    """FILE.py:NAME, where NAME is called without arguments and returns the torch.nn.Module that the state dict is for.
    None: the network of the run."""
    run_name: str | None = None
    """Name of the training in the manifest. None: the name of `checkpoint` without its suffix."""
    commit: str | None = None
    """Commit of the code that trained the model, for the manifest. None: as the run's record says."""
    method: Literal["script", "trace", "export"] = "script"
    """What becomes of it. script: TorchScript of its code; trace: TorchScript of one call, for Python that TorchScript
    does not know; export: a program of torch.export, the format that succeeds TorchScript."""
    input_name: str = "image"
    """Name of the input for clients."""
    output_name: str = "logits"
    """Name of the output for clients, where there is one."""

    def __post_init__(self) -> None:
        if (self.data is None) == (self.examples is None):
            given = "both are given" if self.data else "none is given"
            raise ValueError(f"data, examples: {given}. Fix: data of a classifier, or examples of another network")
        if self.unbatched and self.examples is None:
            raise ValueError(
                "unbatched=True: data are samples of a classifier, in batches. Fix: examples, or leave it out"
            )
        if self.checkpoint is None and self.network is None:
            raise ValueError("checkpoint, network: none is given. Fix: one, or both for a file of weights")
        file_name("run_name", self.name)
        for field_name, value in (("input_name", self.input_name), ("output_name", self.output_name)):
            if not (value and value.isprintable()):
                raise ValueError(f"{field_name}={value!r}: must be one printable character or more")

    @property
    def name(self) -> str:
        """The run's name in the manifest."""
        source = self.checkpoint or Path((self.network or "").rpartition(":")[0])
        stem = source.resolve().stem.lower()
        return self.run_name or (stem if NAME_PATTERN.fullmatch(stem) else "checkpoint")

    def read(self, *, with_data: bool) -> TrainedModel:
        """Return the model in evaluation mode, with the data.

        Args:
            with_data: Whether all samples are wanted, too, as for variants. Else those of a run's data set are read
                batch by batch, and of the held-out split alone: they may be more than memory holds.

        Raises:
            SourceError: a file is missing or damaged, or they do not fit together.
        """
        run = self._find_run()
        if self.data is None:
            return self._described_by_examples(run)
        data = read_data(self.data, run.settings if run else {}, whole=with_data)
        module = self._module(run)
        inputs = next(iter(data.held_out.batches(VERIFIED_SAMPLES))).inputs
        with self._explained(module, inputs[:2]), torch.inference_mode():
            outputs: object = module(inputs[:2])
        classes = _classes(outputs)
        held_out = data.checked(classes)
        return TrainedModel(
            module=module,
            inputs=(TensorSpec(name=self.input_name, shape=tuple(inputs.shape[1:])),),
            outputs=(TensorSpec(name=self.output_name, shape=(classes,)),),
            samples=[[inputs]],
            run_name=self.name,
            step=run.step if run else 0,
            held_out=held_out,
            training=data.splits.training if data.splits else None,
            commit=self._source_commit(),
            class_names=data.class_names,
            method=self.method,
            source_files=self._source_files(module),
        )

    def _described_by_examples(self, run: _RunCheckpoint | None) -> TrainedModel:
        module = self._module(run)
        described = interface(self.examples or "", module, self.output_name, is_batched=not self.unbatched)
        return TrainedModel(
            module=module,
            inputs=described.inputs,
            outputs=described.outputs,
            samples=described.samples,
            is_batched=not self.unbatched,
            run_name=self.name,
            step=run.step if run else 0,
            commit=self._source_commit(),
            method=self.method,
            source_files=self._source_files(module),
        )

    def _module(self, run: _RunCheckpoint | None) -> nn.Module:
        return (self._read_run(run) if run else self._read_state_dict()).eval()

    def _source_commit(self) -> str | None:
        return self.commit or (source_commit(self.checkpoint) if self.checkpoint else None)

    @contextmanager
    def _explained(self, module: nn.Module, inputs: Tensor) -> Generator[None]:
        """Report what the network raises with the shape that it was called with, and what it lacks."""
        try:
            yield
        except SourceError:
            raise  # of the data, which is read meanwhile
        except Exception as error:  # whatever a user's network raises
            file = self.network.rpartition(":")[0] if self.network else None
            raise SourceError(
                f"data={self.data}: the network fails on {list(inputs.shape)}: {reason(error, file)}. {_fix(module)}"
            ) from error

    def _source_files(self, module: nn.Module) -> dict[str, str] | None:
        """Return the SHA-256 of each file that was given: a later one may have the same name."""
        network = [Path(self.network.rpartition(":")[0])] if self.network else []
        files = [self.checkpoint] if self.checkpoint and not self.checkpoint.is_dir() else []
        digests = {path.name: sha256_of(path) for path in (*files, *network)}
        return (digests if self.checkpoint else digests | {"weights": _digest(module)}) or None

    def _read_state_dict(self) -> nn.Module:
        if self.step is not None:
            fix = "Fix: leave it out, or --checkpoint with the folder of a run"
            raise SourceError(f"step={self.step}: checkpoint={self.checkpoint} is a file, which has no steps. {fix}")
        if self.network is None:
            fix = "Fix: add --network=FILE.py:NAME"
            raise SourceError(f"checkpoint={self.checkpoint}: a file says nothing about the network. {fix}")
        module = build(self.network)
        if self.checkpoint is None:
            return module
        try:
            state: Any = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
            module.load_state_dict(state)
        except Exception as error:  # torch raises anything for files that are not its own
            fix = f"Fix: torch.save(model.state_dict(), …) of the network {self.network}"
            raise SourceError(f"checkpoint={self.checkpoint}: {reason(error)}. {fix}") from error
        return module

    def _find_run(self) -> _RunCheckpoint | None:
        """Return the checkpoint of a run, where one is given."""
        if self.checkpoint is None or not self.checkpoint.is_dir():
            return None
        try:
            path, manifest = checkpoint_of_run(self.checkpoint, self.step)
        except CheckpointError as error:
            raise SourceError(f"checkpoint={error}, or a file with --network") from error
        return _RunCheckpoint(path=path, step=manifest.step, settings=manifest.settings)

    def _read_run(self, run: _RunCheckpoint) -> nn.Module:
        """Return the network of a run with the parameters of its checkpoint."""
        module = build(self.network) if self.network else run_model(run.settings).build()
        state: dict[str, Any] = {"model": module.state_dict()}
        try:
            load_state(run.path, state, alone=True)
            module.load_state_dict(state["model"])
        except Exception as error:  # torch raises anything for files that do not fit
            raise SourceError(f"{run.path}: cannot be loaded: {reason(error)}") from error
        return module


@dataclass(frozen=True, kw_only=True)
class _RunCheckpoint:
    path: Path
    step: int
    settings: dict[str, Any]
    """Those that the run was started with."""


_OTHERS = "--examples in place of --data (docs/serve-your-own.md)"


def _digest(module: nn.Module) -> str:
    """Return the SHA-256 of the names and values of a module's state."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _fix(module: nn.Module) -> str:
    """Return what to do about a network that fails on one float32 tensor."""
    try:
        inspect.signature(module.forward).bind(None)
    except TypeError:
        return f"Fix: a forward that takes one tensor, or {_OTHERS}"
    types = {tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point()}
    if others := sorted(str(each) for each in types - {torch.float32}):
        return f"Fix: its weights are {' and '.join(others)}, and inputs float32: model.float() in the network's file"
    return "Fix: data of the shape that the network takes, or the network"


def _classes(outputs: object) -> int:
    """Return how many classes the network tells apart, from its outputs for two samples."""
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != 2:
        shape = list(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        fix = f"Fix: return that alone, or {_OTHERS}"
        raise SourceError(f"the network returns {shape} for 2 samples; must be a tensor of logits [2, classes]. {fix}")
    if outputs.dtype != torch.float32:
        raise SourceError(f"the network returns {outputs.dtype}; must be float32. Fix: logits.float()")
    if not outputs.isfinite().all():
        raise SourceError("the network returns NaN or infinity for the first held-out samples. Fix: train it again")
    return outputs.shape[1]
