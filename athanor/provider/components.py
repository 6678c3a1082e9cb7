"""The components of the package: each reads its inputs and declares the class that Python programs use.

Pulumi's analyzer reads annotations as they stand, so no `from __future__ import annotations` here.
"""

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from athanor.provider.properties import annotated, contract_type, schema_type
from athanor.provider.reading import described, platform_outputs, written
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs
from infra.platform import Platform as PlatformHandle
from workloads.batch import BatchJob, BatchJobArgs
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.job import KINDS, of_any_kind
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs

PACKAGE = "athanor"
_TYPES = f"{PACKAGE}:index:"
WORKLOADS: Mapping[type, type] = {
    PyTorchJob: PyTorchJobArgs,
    MPIJob: MPIJobArgs,
    TensorFlowJob: TensorFlowJobArgs,
    BatchJob: BatchJobArgs,
    TorchScriptService: TorchScriptServiceArgs,
}
"""What the package offers in addition to a platform, with the arguments of each."""


class PlatformInputs:
    """Which platform."""

    stack: pulumi.Input[str]
    """Full name of the stack that owns it, such as organization/athanor/prod."""


class Platform(pulumi.ComponentResource):
    """The platform that another stack owns, read from its outputs, which hold no secret."""

    contract: pulumi.Output[dict[str, Any]]
    """What workloads need to know of it: their input `platform`."""

    def __init__(self, name: str, args: PlatformInputs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{_TYPES}Platform", name, None, opts)
        stack = cast("Mapping[str, Any]", args).get("stack")
        if not stack:
            raise RefusalError("stack", stack, "names no stack", "write its full name: organization/athanor/prod")
        reference = pulumi.StackReference(name, stack, pulumi.ResourceOptions(parent=self))
        self.contract = PlatformOutputs.read(reference).apply(asdict)
        self.register_outputs({"contract": self.contract.apply(written)})


# As a type that has all its properties; in Python it is a dict.
Platform.__annotations__["contract"] = pulumi.Output[contract_type()]


class WorkloadInputs:
    """What all workloads take in addition to their own arguments."""

    platform: pulumi.Input[dict[str, Any]]
    """Where it runs: the output `contract` of a Platform."""
    kubeconfig: pulumi.Input[str] | None
    """Access to the platform's cluster, a secret. Default: the Kubernetes provider in the option `providers`."""


class _Workload(pulumi.ComponentResource):
    """A job or a service, whose only child is the one that Python programs declare."""

    declares = cast("Any", pulumi.ComponentResource)
    """The class in Python; without an annotation, which would be an output."""

    def __init__(self, name: str, args: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        of = type(self).declares
        options = of_any_kind(of.__name__, opts, _TYPES) if of.__name__ in KINDS else opts
        super().__init__(f"{_TYPES}{of.__name__}", name, None, options)
        own = dict(args)
        platform, kubeconfig = own.pop("platform", None), own.pop("kubeconfig", None)
        arguments = described(WORKLOADS[of], own)
        handle = PlatformHandle.from_outputs(_platform_outputs(platform), self._cluster(name, kubeconfig))
        declared = of(name, handle, arguments, pulumi.ResourceOptions(parent=self))
        outputs = {output: getattr(declared, output) for output in _outputs(of)}
        for output, value in outputs.items():
            setattr(self, output, value)
        self.register_outputs(written(outputs))

    def _cluster(self, name: str, kubeconfig: pulumi.Input[str] | None) -> kubernetes.Provider:
        passed = self.get_provider("kubernetes:core/v1:Pod")
        if (kubeconfig is None) is (passed is None):
            limit = (
                "no Kubernetes provider is passed either" if passed is None else "a Kubernetes provider is passed, too"
            )
            fix = "set kubeconfig, or pass a provider of the cluster in the resource option `providers`: one of both"
            raise RefusalError("kubeconfig", None if kubeconfig is None else "…", limit, fix)
        if kubeconfig is None:
            return cast("kubernetes.Provider", passed)
        secret = pulumi.Output.secret(kubeconfig)
        return kubernetes.Provider(f"{name}-cluster", kubeconfig=secret, opts=pulumi.ResourceOptions(parent=self))


def _platform_outputs(platform: Any) -> pulumi.Output[PlatformOutputs]:  # noqa: ANN401 - what a program wrote
    if platform is None:
        fix = "write platform: ${platform.contract}, with an athanor:Platform, or the same in your language"
        raise RefusalError("platform", platform, "says on which platform it runs", fix)
    return pulumi.Output.from_input(platform).apply(platform_outputs)


def _outputs(of: type) -> dict[str, Any]:
    """Return the outputs of a component of ours by name, with their types."""
    outputs: dict[str, Any] = {}
    for base in reversed(of.__mro__):
        if base not in pulumi.ComponentResource.__mro__:
            # Modules that need the SDK for types alone do not import it.
            outputs |= inspect.get_annotations(base, eval_str=True, locals={"pulumi": pulumi})
    return outputs


def _component(of: type, described_by: type) -> type[pulumi.ComponentResource]:
    """Return the component that other languages have for one of ours, with the annotations of its schema."""

    def make(self: _Workload, name: str, args: Any, opts: pulumi.ResourceOptions | None = None) -> None:  # noqa: ANN401
        _Workload.__init__(self, name, args, opts)

    inputs: dict[str, Any] = {
        **schema_type(described_by).__annotations__,
        "platform": pulumi.Input[contract_type()],
        "kubeconfig": WorkloadInputs.__annotations__["kubeconfig"],
    }
    make.__annotations__ = {"args": annotated(described_by.__name__, described_by.__doc__ or "", inputs)}
    body = {"__init__": make, "__doc__": of.__doc__, "__annotations__": _outputs(of), "declares": of}
    return type(of.__name__, (_Workload,), {**body, "__module__": __name__})


COMPONENTS = (Platform, *(_component(of, arguments) for of, arguments in WORKLOADS.items()))
"""What the package offers."""
