"""A Pulumi engine that only records: every registration with its options, every read and every invoke.

`record` returns when the program and all that it started have come to rest, so that a test may also assert absence.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import pulumi
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import mocks, rpc
from pulumi.runtime import resource as registering
from pulumi.runtime import stack as engine_stack
from pulumi.runtime.proto import provider_pb2, resource_pb2, source_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROJECT = "athanor"
STACK_TYPE = "pulumi:pulumi:Stack"
STACK_REFERENCE = "pulumi:pulumi:StackReference"
KUBERNETES_PROVIDER = "pulumi:providers:kubernetes"


@dataclass(frozen=True)
class Secret:
    """A value that the program marked as secret."""

    value: Any


class Unknown:
    """A value that the engine cannot know before the update."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN = Unknown()


@dataclass(kw_only=True)
class Registration:
    """One resource as the program registered it."""

    urn: str
    type: str
    name: str
    """Logical name."""
    custom: bool
    inputs: dict[str, Any]
    """With `Secret` and `UNKNOWN` where the engine would see one; of a Kubernetes object these are its manifest."""
    parent: str
    provider: str
    """URN of the provider, empty if the registration names none."""
    depends_on: frozenset[str]
    """URNs; what a component contains is written out, as the engine sees it."""
    delete_before_replace: bool
    protect: bool
    ignore_changes: tuple[str, ...]
    replace_on_changes: tuple[str, ...]
    aliases: frozenset[str]
    """URNs of its own under which the state may know it from before; those of its parents are left to the engine."""
    before_update: tuple[str, ...]
    """Names of the hooks that may refuse an update; the recording holds them."""
    after_create: tuple[str, ...]
    """Names of the hooks that say what comes next."""
    outputs: dict[str, Any] | None = None
    """What a component registered at its end; None if it never did."""

    @property
    def kind(self) -> str:
        """The Kubernetes kind, empty for everything that is not a Kubernetes object."""
        return str(self.inputs.get("kind", ""))

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a Kubernetes object."""
        return self.inputs.get("metadata", {}).get("annotations", {})


@dataclass(frozen=True, kw_only=True)
class Invoke:
    """One function call into a provider."""

    token: str
    args: dict[str, Any]


@dataclass(kw_only=True)
class Recording:
    """Everything a program asked of the engine."""

    resources: dict[str, Registration] = field(default_factory=dict)
    """By URN and in the order of URNs; the stack itself is left out."""
    reads: list[tuple[str, str]] = field(default_factory=list)
    """(type, id) of what was read instead of created."""
    invokes: list[Invoke] = field(default_factory=list)
    exports: dict[str, Any] = field(default_factory=dict)
    """The stack's outputs."""
    hooks: dict[str, pulumi.ResourceHook] = field(default_factory=dict)
    """By name."""

    def of_type(self, type_: str) -> list[Registration]:
        """All resources with this type token."""
        return [resource for resource in self.resources.values() if resource.type == type_]

    def of_kind(self, kind: str) -> list[Registration]:
        """All Kubernetes objects of a kind."""
        return [resource for resource in self.resources.values() if resource.kind == kind]

    def one(self, name: str, kind: str = "") -> Registration:
        """The only resource with this logical name, or of these the only one of a Kubernetes kind."""
        matches = [r for r in self.resources.values() if r.name == name and (not kind or r.kind == kind)]
        assert len(matches) == 1, f"{len(matches)} resources are called {name!r} ({kind or 'any kind'})"
        return matches[0]

    def objects(self) -> list[Registration]:
        """Everything that becomes a Kubernetes object."""
        return [resource for resource in self.resources.values() if resource.type.startswith("kubernetes:")]

    def ancestors(self, resource: Registration) -> frozenset[str]:
        """URNs of all that must exist before `resource` does."""
        seen: set[str] = set()
        waiting = [*resource.depends_on, resource.provider]
        while waiting:
            urn = waiting.pop()
            if urn not in seen and urn in self.resources:
                seen.add(urn)
                waiting += [*self.resources[urn].depends_on, self.resources[urn].provider]
        return frozenset(seen)


class RecordingEngine(pulumi.runtime.Mocks, mocks.MockMonitor):
    """Answers as a provider without defaults of its own would: what goes in comes out.

    It answers the SDK's calls itself: `MockMonitor` opens an event loop per thread and never closes it, and hands
    `Mocks` neither parents nor dependencies nor options.
    """

    def __init__(
        self,
        *,
        stack: str,
        preview: bool,
        stacks: Mapping[str, Mapping[str, Any]],
        answers: Mapping[str, Mapping[str, Any]],
        outputs: Mapping[str, Mapping[str, Any]],
        objects: Mapping[str, Mapping[str, Any]],
    ) -> None:
        mocks.MockMonitor.__init__(self, self)
        self.recording = Recording()
        self.stack = stack
        self.preview = preview
        self._stacks = stacks
        self._answers = answers
        self._outputs = outputs
        self._objects = objects
        self._root = ""

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """`urn:pulumi:<stack>::<project>::<types of all parents but the stack>$<type>::<name>`."""
        parent_types = parent.split("::")[2] if parent and STACK_TYPE not in parent else ""
        qualified = f"{parent_types}${type_}" if parent_types else type_
        return "::".join([f"urn:pulumi:{self.stack}", PROJECT, qualified, name])

    def _aliased(self, request: Any, alias: Any) -> str:
        """Return the URN that an alias stands for; what it does not say is as it is now."""
        if alias.urn:
            return alias.urn
        parent = "" if alias.spec.noParent else alias.spec.parentUrn or request.parent
        return self.make_urn(parent, alias.spec.type or request.type, alias.spec.name or request.name)

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK_TYPE:
            self._root = urn
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if urn in self.recording.resources:
            raise ValueError(f"Duplicate resource URN {urn!r}")
        self.recording.resources[urn] = Registration(
            urn=urn,
            type=request.type,
            name=request.name,
            custom=request.custom,
            inputs=_plain(request.object),
            parent=request.parent,
            provider=request.provider.rpartition("::")[0],
            depends_on=frozenset(request.dependencies),
            delete_before_replace=request.deleteBeforeReplace,
            protect=request.protect,
            ignore_changes=tuple(request.ignoreChanges),
            replace_on_changes=tuple(request.replaceOnChanges),
            aliases=frozenset(self._aliased(request, each) for each in request.aliases),
            before_update=tuple(request.hooks.before_update),
            after_create=tuple(request.hooks.after_create),
        )
        identifier, _ = self.new_resource(mocks.MockResourceArgs(request.type, request.name, {}))
        state = struct_pb2.Struct()
        state.CopyFrom(request.object)
        if not self.preview:
            state.MergeFrom(_struct(dict(self._outputs.get(request.type, {}))))
        return resource_pb2.RegisterResourceResponse(urn=urn, id=identifier, object=state)

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        outputs = _plain(request.outputs)
        if request.urn == self._root:
            self.recording.exports = outputs
        else:
            self.recording.resources[request.urn].outputs = outputs
        return super().RegisterResourceOutputs(request)

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        self.recording.reads.append((request.type, request.id))
        if request.type == STACK_REFERENCE:
            state = {"name": request.id, "outputs": dict(self._stacks[request.id]), "secretOutputNames": []}
        else:
            state = dict(self._objects[request.id])
        urn = self.make_urn(request.parent, request.type, request.name)
        return resource_pb2.ReadResourceResponse(urn=urn, properties=_struct(state))

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        answer = self.call(mocks.MockCallArgs(request.tok, _plain(request.args), request.provider))
        return provider_pb2.InvokeResponse(**{"return": _struct(answer)})

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Before the update no identifier exists."""
        return ("" if self.preview else f"{args.name}-id"), args.inputs

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        self.recording.invokes.append(Invoke(token=args.token, args=args.args))
        return dict(self._answers.get(args.token, {}))


class _Hooks:
    """Stands for the server through which the engine calls hooks: it only keeps them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def register_resource_hook(self, hook: pulumi.ResourceHook) -> None:
        self._recording.hooks[hook.name] = hook


def record(
    program: Callable[[], object],
    *,
    preview: bool,
    config: Mapping[str, object] | None = None,
    stack: str = "local",
    stacks: Mapping[str, Mapping[str, Any]] | None = None,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
    outputs: Mapping[str, Mapping[str, Any]] | None = None,
    objects: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recording:
    """Run a program to rest and return what it asked for; whatever it raises is raised here.

    Args:
        program: Called once inside a stack of the project `athanor`.
        preview: Whether the engine plans (no identifiers yet) or updates.
        config: The stack's configuration without the project's prefix; objects are handed over as JSON, as by the CLI.
        stack: Name of the stack.
        stacks: Outputs of the stacks that the program may refer to, by full name.
        answers: What a provider's functions return, by token; any other returns nothing.
        outputs: What an update adds to the inputs of a resource, by type token.
        objects: The cluster's objects that the program may read, by namespace/name.
    """
    engine = RecordingEngine(
        stack=stack, preview=preview, stacks=stacks or {}, answers=answers or {}, outputs=outputs or {},
        objects=objects or {},
    )  # fmt: skip
    texts = {f"{PROJECT}:{key}": _config_text(value) for key, value in (config or {}).items()}
    # The SDK keeps all its state in context variables: a context of its own isolates one run from the next. The stack
    # trace of every registration, which no test reads, would take a fifth of a recording's CPU.
    with mock.patch.object(registering, "_get_stack_trace", source_pb2.StackTrace):
        contextvars.copy_context().run(lambda: asyncio.run(_run(engine, program, texts)))
    # A program registers in threads, so the order in which that happens is chance.
    engine.recording.resources = dict(sorted(engine.recording.resources.items()))
    return engine.recording


async def _run(engine: RecordingEngine, program: Callable[[], object], config: dict[str, str]) -> None:
    pulumi.runtime.set_all_config(config)
    settings = mocks.MockSettings(
        monitor=engine, engine=mocks.MockEngine(None), project=PROJECT, stack=engine.stack, dry_run=engine.preview
    )
    pulumi.runtime.settings.configure(settings)
    # The one list that all runs share: a program that was refused leaves tasks of its closed event loop in it.
    pulumi.runtime.settings.SETTINGS.outputs.clear()
    pulumi.runtime.settings.SETTINGS.callbacks = _Hooks(engine.recording)

    def body() -> None:
        program()

    # The first failure is raised below; the tasks that fail with it would only be logged at the interpreter's end.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await engine_stack.run_in_stack(body)


def _config_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _struct(value: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(value, struct_pb2.Struct())


def _plain(properties: struct_pb2.Struct) -> dict[str, Any]:
    return _revealed(json_format.MessageToDict(properties))


def _revealed(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(rpc._special_sig_key) == rpc._special_secret_sig:
            return Secret(_revealed(value["value"]))
        return {key: _revealed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_revealed(item) for item in value]
    if isinstance(value, float) and value.is_integer():  # protobuf knows no whole numbers
        return int(value)
    return UNKNOWN if value == rpc.UNKNOWN else value


def scalars(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every scalar below `node` with its path; a secret is one value, whatever it holds."""
    if isinstance(node, dict):
        for key, item in node.items():
            yield from scalars(item, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for place, item in enumerate(node):
            yield from scalars(item, f"{path}[{place}]")
    else:
        yield path, node
