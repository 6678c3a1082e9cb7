"""Initial weights of a run from a file, in any layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import safetensors.torch
import torch

from trainer.common.validation import SettingsError, listed
from trainer.pytorch.parallel.sharding import assign
from trainer.pytorch.parallel.tied import tied_parameters
from trainer.pytorch.source_error import reason

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from trainer.pytorch.models.model_config import ModelConfig

_SAFETENSORS = ".safetensors"


def take(path: Path, config: ModelConfig, module: nn.Module, *, strict: bool) -> list[str]:
    """Give a rank's part of a model the weights of a file; each rank reads them by itself.

    Args:
        path: A state dict, as safetensors or as torch.save writes it.
        config: Of the whole model, whose names and shapes the file is compared with.
        module: The rank's parameters, divided or whole.
        strict: Whether a weight that the file lacks, has in addition or in another shape is an error.

    Returns:
        What the file lacks, has in addition or in another shape: the model begins without it.

    Raises:
        SettingsError: the file cannot be read, or does not fit.
    """
    weights = _read(path)
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        whole = config.outline()
    expected = {name: tuple(each.shape) for name, each in cast("dict[str, Tensor]", whole.state_dict()).items()}
    for names in tied_parameters(whole):  # of which safetensors has one
        present = [name for name in names if name in weights]
        weights |= dict.fromkeys(names, weights[present[0]]) if present else {}
    given = {name: tuple(each.shape) for name, each in weights.items()}
    differ = [name for name in expected if name in given and given[name] != expected[name]]
    misfits = {
        "lacks": [name for name in expected if name not in given],
        "has in addition": [name for name in given if name not in expected],
        "has in another shape": [f"{name} {given[name]}, not {expected[name]}" for name in differ],
    }
    problems = [f"{what} {listed(names)}" for what, names in misfits.items() if names]
    if strict and problems:
        fix = "Fix: weights of this model, or --no-init_weights_strict to begin without those"
        raise SettingsError(f"init_weights={path}: {'; '.join(problems)}. {fix}")
    fitting = {name: weights[name] for name in expected if given.get(name) == expected[name]}
    if not fitting:
        raise SettingsError(f"init_weights={path}: has none of the model's weights, such as {listed(list(expected))}")
    assign(module, fitting)
    return problems


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == _SAFETENSORS:
            return safetensors.torch.load_file(path)  # pyright: ignore[reportUnknownMemberType]
        # mapped: of a model that is divided, a rank needs a part
        state: object = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch and safetensors raise anything for files that are not theirs
        fix = f"Fix: a file that safetensors wrote, *{_SAFETENSORS}, or torch.save(model.state_dict(), …)"
        raise SettingsError(f"init_weights={path}: cannot be read: {reason(error)}. {fix}") from error
    if not isinstance(state, dict):
        raise SettingsError(f"init_weights={path}: is a {type(state).__name__}; must be a state dict: tensors by name")
    items = cast("dict[object, object]", state).items()
    if other := [str(name) for name, each in items if not isinstance(each, torch.Tensor)]:
        limit = f"{listed(other)} of it is not a tensor; must be a state dict: tensors by name"
        raise SettingsError(f"init_weights={path}: {limit}. Fix: torch.save(model.state_dict(), …)")
    return {str(name): cast("Tensor", each) for name, each in items}
