"""The components of the package: each reads its inputs and declares the class that Python programs use.

Pulumi's analyzer reads annotations as they stand, so no `from __future__ import annotations` here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, cast, get_args, get_origin

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi.provider.experimental.util import camel_case

from athanor.provider.properties import Choice, annotated, contract_type, properties, schema_type
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs
from infra.platform import Platform as PlatformHandle
from workloads.batch import BatchJob, BatchJobArgs
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.job import KINDS, of_any_kind
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs


def described(of: type, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an instance of `of`
    """Return the arguments that a program wrote under the schema's names.

    Raises:
        RefusalError: as in a Python program, also for names that the schema does not have.
    """
    by_name = {camel_case(name): each for name, each in properties(of).items()}
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name not in by_name:
            arguments[name] = value
            continue
        each = by_name[name]
        if each.field in arguments:
            limit = f"says the same as {each.field}, which is set, too"
            raise RefusalError(name, value, limit, "omit one of them")
        arguments[each.field] = _read(name, each.kind, value)
    return of(**arguments)


def platform_outputs(given: object) -> PlatformOutputs:
    """Return a platform's outputs from those that a program passes on.

    Raises:
        RefusalError: it is something else, lacks something, or follows a newer contract.
    """
    names = {camel_case(name): name for name in properties(PlatformOutputs)}
    values = cast("dict[str, Any]", given if isinstance(given, Mapping) else {"": given})
    outputs = {names.get(name, name): value for name, value in values.items()}
    return PlatformOutputs.parse(outputs if isinstance(given, Mapping) else given, "the property platform")


def written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under the names that they have in the schema."""
    return {camel_case(name): value for name, value in values.items()}


def _read(name: str, kind: Any, value: Any) -> Any:  # noqa: ANN401 - any annotation and value
    if isinstance(kind, Choice):
        items = cast("list[Any] | None", value if kind.is_list and isinstance(value, list) else None)
        return _chosen(name, kind, value) if items is None else tuple(_chosen(name, kind, item) for item in items)
    if isinstance(value, float) and value.is_integer():  # the wire has one type of number
        return int(value)
    cls = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
    if cls is not None and isinstance(value, Mapping):
        return described(cast("type", cls), cast("Mapping[str, Any]", value))
    origin, members = get_origin(kind), get_args(kind)
    if origin is Sequence and isinstance(value, list):
        return tuple(_read(name, members[0], item) for item in cast("list[Any]", value))
    if origin is Mapping and isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: _read(name, members[1], item) for key, item in items.items()}
    return value


def _chosen(name: str, choice: Choice, value: Any) -> Any:  # noqa: ANN401 - any value
    given = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
    chosen = [key for key, item in given.items() if item is not None]
    if len(chosen) != 1 or chosen[0] not in choice.classes:
        first = next(iter(choice.classes))
        limit = f"must have exactly one of {', '.join(choice.classes)}"
        raise RefusalError(
            name, cast("object", value), limit, f"write one with its own fields, such as {{{first}: {{…}}}}"
        )
    return _read(chosen[0], choice.classes[chosen[0]], given[chosen[0]])


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
