"""The engine's steps as changes of resources: one per resource, with its reason and its location in the program."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from athanor.review.differences import Difference, after_a_rename, differences
from athanor.review.preview import STACK_TYPE, Preview, State, Step, urn_name, urn_type, urn_types
from athanor.review.tolerant import as_text, at, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from athanor.review.values import Masker

Kind = Literal["deleted", "replaced", "changed", "created", "imported", "forgotten"]
KINDS: tuple[Kind, ...] = ("deleted", "replaced", "changed", "created", "imported", "forgotten")
"""All kinds, those that a reviewer must see first at the front."""
_KIND_OF: dict[str, Kind] = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "replaced",
    "delete-replaced": "replaced",
    "read-replacement": "replaced",
    "import": "imported",
    "import-replacement": "replaced",
    "discard": "forgotten",
    "discard-replaced": "replaced",
    "remove-pending-replace": "forgotten",
}
"""Kinds by the operations of the engine (pkg/resource/deploy/step.go of pulumi/pulumi v3.232.0)."""
_NOTHING = {"same", "read", "refresh", "extend-parameterize"}
_KUBERNETES = "kubernetes:"
"""Beginning of the types whose outputs have more than anybody declared, such as `managedFields`."""
_SECRETS = "kubernetes:core/v1:Secret"
OWN_NAME = "metadata.name"
"""Path of a Kubernetes object's name, which often holds a hash of all else."""
_INTERNAL = "__"
"""Prefix of inputs that the SDKs add for themselves, such as __defaults."""
_INTERNAL_PATH = re.compile(rf"(?:^|\.){_INTERNAL}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A planned change of one resource."""

    kind: Kind
    urn: str
    operation: str
    """The engine's own name of it."""
    old: State | None
    new: State | None
    reasons: tuple[str, ...] = ()
    """Properties that make it a replacement."""
    differences: tuple[Difference, ...] = field(default=(), repr=False)
    """Differences of its inputs, if it is changed or replaced; of its outputs where the inputs are equal."""

    @property
    def type(self) -> str:
        """Its type token."""
        return urn_type(self.urn)

    @property
    def name(self) -> str:
        """Its logical name."""
        return urn_name(self.urn)

    @property
    def custom(self) -> bool:
        """Whether a provider manages it; components have none."""
        return any(state.custom for state in (self.old, self.new) if state) or not (self.old or self.new)

    @property
    def before(self) -> Mapping[str, object]:
        """Inputs that it has now."""
        return self.old.inputs if self.old else {}

    @property
    def after(self) -> Mapping[str, object]:
        """Inputs that it would have."""
        return self.new.inputs if self.new and self.kind != "deleted" else {}

    @property
    def component(self) -> tuple[tuple[str, ...], str]:
        """Its component, itself for a component: the type tokens of its parents, and the nearest's logical name."""
        if not self.custom:
            return tuple(token for token in urn_types(self.urn) if token != STACK_TYPE), self.name
        parents = tuple(token for token in urn_types(self.urn)[:-1] if token != STACK_TYPE)
        state = self.new or self.old
        parent = state.parent if state else ""
        return parents, urn_name(parent) if parents and parent else ""


def changes(preview: Preview, masker: Masker) -> list[Change]:
    """Return a preview's changes, one for each resource, in a stable order."""
    by_resource: dict[tuple[str, bool], list[Step]] = {}
    for step in preview.steps:
        # What an earlier replacement left to be deleted has the URN of what replaced it.
        leftover = step.operation == "delete" and bool(step.old and step.old.leftover)
        if step.operation not in _NOTHING:
            by_resource.setdefault((step.urn, leftover), []).append(step)
    merged = [_change(steps, masker) for steps in by_resource.values()]
    return sorted(merged, key=lambda change: (KINDS.index(change.kind), change.component, change.type, change.name))


def counted(changes: Iterable[Change]) -> dict[Kind, int]:
    """Return how many resources each kind of change has; components, which no provider manages, are not counted."""
    listed = [change.kind for change in changes if change.custom]
    return {kind: listed.count(kind) for kind in KINDS}


def is_secret(urn: str) -> bool:
    """Whether a resource is a Kubernetes Secret, or a patch of one."""
    return urn_type(urn) in {_SECRETS, f"{_SECRETS}Patch"}


def _change(steps: Sequence[Step], masker: Masker) -> Change:
    kinds: set[Kind] = {_KIND_OF.get(step.operation, "changed") for step in steps}
    replaced = "replaced" in kinds or kinds >= {"created", "deleted"}
    kind: Kind = "replaced" if replaced else min(kinds, key=KINDS.index)
    old = next((step.old for step in steps if step.old), None)
    new = next((step.new for step in steps if step.new and not step.operation.startswith("delete")), None)
    if kind == "deleted" and old and old.retained:
        kind = "forgotten"
    operation = next((step.operation for step in steps if step.operation == "replace"), steps[0].operation)
    paths = {path: way for step in steps for path, way in step.changed_paths.items()}
    return Change(
        kind=kind,
        urn=steps[0].urn,
        operation=operation,
        old=old,
        new=new,
        reasons=_reasons(steps, paths) if kind == "replaced" else (),
        differences=_differences(steps[0], old, new, paths, masker) if kind in {"changed", "replaced"} else (),
    )


def _reasons(steps: Sequence[Step], paths: Mapping[str, str]) -> tuple[str, ...]:
    named = [reason for step in steps for reason in step.replace_reasons]
    return tuple(sorted(set(named) or {path for path, way in paths.items() if way.endswith("replace")}))


def _differences(
    step: Step, old: State | None, new: State | None, paths: Mapping[str, str], masker: Masker
) -> tuple[Difference, ...]:
    if old is None or new is None:
        return _unnamed(paths)
    compared = _compared(step.urn, old.inputs, new.inputs, masker)
    if not compared and new.outputs:
        # Drift that a refresh found: what the program declares is the same.
        compared = _compared(step.urn, old.outputs, new.outputs, masker)
    elif step.refreshed and not urn_type(step.urn).startswith(_KUBERNETES):
        compared = sorted([*compared, *_added_by_others(old, new, masker)], key=lambda difference: difference.path)
    return tuple(compared) or _unnamed(paths)


def _added_by_others(old: State, new: State, masker: Masker) -> list[Difference]:
    """Return what somebody added to maps that the program declares, such as a tag: refreshed inputs lack new keys."""
    own = [key for key, each in {**old.inputs, **new.inputs}.items() if is_mapping(each)]
    none: Mapping[str, object] = {}
    before, after = (masker.value({key: state.outputs.get(key) or none for key in own}) for state in (old, new))
    return [each for each in differences(before, after) if each.kind == "added" and each.new not in ("", [], {})]


def _compared(urn: str, old: Mapping[str, object], new: Mapping[str, object], masker: Masker) -> list[Difference]:
    before, after = (
        masker.value(
            {key: each for key, each in inputs.items() if not key.startswith(_INTERNAL)}, secret_manifest=is_secret(urn)
        )
        for inputs in (old, new)
    )
    return after_a_rename(differences(before, after), OWN_NAME)


def _unnamed(paths: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return changes that the provider names without values in the engine's JSON, as with secrets."""
    return tuple(Difference(path=path, kind="unseen") for path in sorted(paths) if not _INTERNAL_PATH.search(path))


def physical_name(change: Change) -> tuple[str, str]:
    """Return the namespace and the name of a Kubernetes object as it is in the cluster now; "" where unknown."""
    state = change.old
    if state is None:
        return "", ""
    names = [
        (as_text(at(properties, "metadata", "namespace")), as_text(at(properties, "metadata", "name")))
        for properties in (state.outputs, state.inputs)
    ]
    return next((pair for pair in names if pair[1]), ("", ""))
