"""Modules that each rank of a tensor-parallel group holds and computes in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.distributed.tensor import DTensor, Replicate

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def replicate(module: nn.Module, mesh: DeviceMesh) -> None:
    """Make the parameters that a module has by itself, in no submodule, replicated ones of a mesh, in place.

    Gradients, the optimizer and checkpoints then treat them as those of divided layers. Ones that are divided stay so.
    """
    for name, parameter in module.named_parameters(recurse=False):
        if not isinstance(parameter, DTensor):
            # every rank has the same values: nothing to send
            whole = DTensor.from_local(parameter.detach(), mesh, [Replicate()], run_check=False)
            module.register_parameter(name, nn.Parameter(whole, requires_grad=parameter.requires_grad))


def compute_whole(module: nn.Module) -> None:
    """Let a module's forward see its replicated parameters as plain tensors, as its inputs are: torch mixes neither.

    Their gradients are those of each rank, so all must compute it with the same inputs (`gradients.refuse_unequal`).
    """

    def show(owner: nn.Module, _inputs: object) -> None:
        for name, parameter in owner.named_parameters(recurse=False):
            if isinstance(parameter, DTensor):
                # found before the parameter of that name, by the forward alone
                vars(owner)[name] = parameter.to_local(grad_placements=parameter.placements)

    def hide(owner: nn.Module, _inputs: object, _outputs: Any) -> None:  # noqa: ANN401  of any module
        for name, _ in owner.named_parameters(recurse=False):
            vars(owner).pop(name, None)

    module.register_forward_pre_hook(show)
    module.register_forward_hook(hide, always_call=True)
