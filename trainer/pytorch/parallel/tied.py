"""Tied parameters, which a model has under several names, and the layouts that would separate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.common.validation import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from trainer.pytorch.parallel.degrees import Degrees


def tied_parameters(model: nn.Module, *, of_other_modules: bool = False) -> list[list[str]]:
    """Return the names of each parameter that has several, in the order of the model.

    Args:
        model: The whole model.
        of_other_modules: Leave out the names that a parameter has because its module has several.
    """
    names: dict[nn.Parameter, list[str]] = {}
    modules: list[tuple[str, nn.Module]] = list(model.named_modules(remove_duplicate=of_other_modules))  # pyright: ignore[reportUnknownArgumentType]
    for prefix, module in modules:
        for name, parameter in module.named_parameters(prefix, recurse=False, remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
    return [each for each in names.values() if len(each) > 1]


def refuse_divided_ties(model: nn.Module, name: str, blocks: Sequence[str], degrees: Degrees, *, sharded: bool) -> None:
    """Refuse to divide a model in a way that gives each name of a tied parameter a parameter of its own.

    Dividing a layer registers a new parameter in that layer alone, each stage of a pipeline trains its own, and FSDP
    takes a parameter into one unit only: a block, or all that is in no block. A module that is used in several places
    is divided and sharded once, and only a pipeline separates it from itself.

    Args:
        model: The whole model, as it was built.
        name: Of the model.
        blocks: Those of its plan.
        degrees: How it will be divided.
        sharded: Whether FSDP holds the parameters.

    Raises:
        SettingsError: naming the parameters and what would work.
    """
    replicas = "data_parallel_replicate alone, or a parameter for each"
    for names in tied_parameters(model):
        units = _units(names, blocks)
        if degrees.pipeline > 1 and (len(units) > 1 or "" in units):
            limit = f"{_shared(names, name)}, and are not in one block: each stage would train its own"
            raise SettingsError(f"pipeline_parallel={degrees.pipeline}: {limit}. Fix: {replicas}")
    for names in tied_parameters(model, of_other_modules=True):
        units = _units(names, blocks)
        if degrees.tensor > 1:
            limit = f"{_shared(names, name)}, of which dividing the layers would make one for each"
            raise SettingsError(f"tensor_parallel={degrees.tensor}: {limit}. Fix: {replicas}")
        if sharded and len(units) > 1:
            option = f"data_parallel_shard={degrees.shard}" if degrees.shard > 1 else "precision=bf16"
            where = ", ".join(unit or "what is in no block" for unit in units)
            limit = f"{_shared(names, name)}, and are not in one unit of FSDP ({where})"
            fix = (
                "replicas in fp32 or bf16_autocast, blocks of its `plan` that have both or none of them, or a parameter"
            )
            raise SettingsError(f"{option}: {limit}. Fix: {fix} for each")


def _shared(names: Sequence[str], model: str) -> str:
    return f"{' and '.join(names)} of {model} share a parameter"


def _units(parameters: Sequence[str], blocks: Sequence[str]) -> list[str]:
    return sorted({_unit(each, blocks) for each in parameters})


def _unit(parameter: str, blocks: Sequence[str]) -> str:
    """Return the innermost block that has a parameter; empty for what is in none."""
    return max((block for block in blocks if parameter.startswith(f"{block}.")), key=len, default="")
