"""The package's interface to Pulumi's engine: its schema, and requests to construct components."""

from __future__ import annotations

import asyncio
import json
from dataclasses import is_dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

import pulumi
from pulumi.errors import InputPropertiesError
from pulumi.provider import ConstructResult
from pulumi.provider.experimental import component
from pulumi.provider.experimental.util import camel_case
from pulumi.provider.server import ComponentInitError
from pulumi.runtime import settings

from athanor.provider.components import COMPONENTS, PACKAGE, WORKLOADS, Platform, PlatformInputs, WorkloadInputs
from athanor.provider.properties import choices_of, literals, nested_classes, properties
from infra.docstrings import field_docstrings
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from pulumi.provider.experimental.analyzer import ComponentDefinition

_T = TypeVar("_T")
Schema = dict[str, Any]


class Package(component.ComponentProvider):
    """Pulumi's component provider with three differences, each for what would get lost on the way.

    The analyzer finds no text of inherited fields, and knows no secrets: the schema is completed. Inputs go to the
    components as they came, because the base class drops those that it does not know. And a refusal stays one line.
    """

    def __init__(self, version: str) -> None:
        super().__init__(list(COMPONENTS), PACKAGE, None, version)
        self.schema = json.dumps(_completed(json.loads(self.schema or "{}")))
        self._programs: dict[Any, pulumi.Resource] = {}

    def map_inputs(self, inputs: Any, component_def: ComponentDefinition) -> Any:  # noqa: ANN401 - as in the base class
        """Return the inputs as they are."""
        del component_def
        return inputs

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Any,  # noqa: ANN401 - as in the base class
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Declare a component.

        Raises:
            InputPropertiesError: our own classes refuse it.
        """
        settings.set_root_resource(self._program())
        try:
            constructed = super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, RefusalError):
                raise _in_its_words(error.inner) from None
            raise
        return ConstructResult(constructed.urn, {key: _refusing(each) for key, each in constructed.state.items()})

    def _program(self) -> pulumi.Resource:
        """Return an identifier of the program's run: workloads of one run have names of their own."""
        project, stack = pulumi.get_project(), pulumi.get_stack()
        run = (project, stack, pulumi.runtime.is_dry_run())
        if run not in self._programs:
            urn = f"urn:pulumi:{stack}::{project}::pulumi:pulumi:Stack::{project}-{stack}"
            self._programs[run] = pulumi.resource.DependencyResource(urn)
        return self._programs[run]


def _refusing(value: pulumi.Input[Any]) -> pulumi.Output[Any]:
    """Return an output whose refusal, known only with other outputs, reaches the engine as one line, too."""
    output = pulumi.Output.from_input(value)
    return pulumi.Output(
        asyncio.ensure_future(_in_one_line(output.resources())),
        asyncio.ensure_future(_in_one_line(output.future(with_unknowns=True))),
        asyncio.ensure_future(_in_one_line(output.is_known())),
        asyncio.ensure_future(_in_one_line(output.is_secret())),
    )


async def _in_one_line(waiting: Awaitable[_T]) -> _T:
    try:
        return await waiting
    except RefusalError as refusal:
        raise _in_its_words(refusal) from None


def _in_its_words(refusal: RefusalError) -> InputPropertiesError:
    """Return the one kind of error that the host passes on as it is.

    It adds a traceback to most others, and gRPC adds "Unexpected <class …>" to those that it leaves alone.
    """
    return InputPropertiesError(str(refusal), [])


def package() -> Package:
    """Return the package, as new as this installation."""
    return Package(metadata.version(PACKAGE))


def _completed(schema: Schema) -> Schema:
    """Add texts, allowed words and secrets to a schema, in place."""
    resources = {name.rpartition(":")[2]: each for name, each in schema["resources"].items()}
    types = {name.rpartition(":")[2]: each for name, each in schema["types"].items()}
    _describe(resources["Platform"]["inputProperties"], PlatformInputs)
    _describe(resources["Platform"]["properties"], Platform)
    _describe(types["PlatformContract"]["properties"], PlatformOutputs)
    for of, arguments in WORKLOADS.items():
        resource = resources[of.__name__]
        _describe(resource["properties"], of)
        _describe(resource["inputProperties"], arguments)
        _describe(resource["inputProperties"], WorkloadInputs)
        resource["inputProperties"]["kubeconfig"]["secret"] = True
    for each in _with_nested(WORKLOADS.values()):
        if each.__name__ in types:
            _describe(types[each.__name__].get("properties") or {}, each)
        for choice in choices_of(each):
            for name, cls in choice.classes.items():
                types[choice.name]["properties"][name]["description"] = (cls.__doc__ or "").partition("\n")[0]
    return schema


def _with_nested(classes: Iterable[type]) -> set[type]:
    """Return classes of arguments and those of their fields, at any depth."""
    seen: set[type] = set()
    todo = list(classes)
    while todo:
        cls = todo.pop()
        if cls not in seen:
            seen.add(cls)
            todo += [nested for each in properties(cls).values() for nested in nested_classes(each.kind)]
    return seen


def _describe(written: Schema, of: type) -> None:
    """Give properties the text below the fields that they set, and the words that these allow."""
    texts = field_docstrings(of)
    fields = properties(of) if is_dataclass(of) else dict.fromkeys(texts)
    for name, each in fields.items():
        if camel_case(name) not in written:
            continue
        words = literals(each.kind) if each else ()
        text = texts.get(each.field if each else name, "")
        allowed = f"One of {', '.join(words)}." if words else ""
        written[camel_case(name)]["description"] = f"{text} {allowed}".strip()
