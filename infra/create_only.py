"""Refusal of changes that the provider would accept, show as an update, and never carry out.

Some inputs are sent when a resource is created and ignored afterwards; others would replace a resource that must stay.
A hook of the engine compares them with those in the checkpoint before every update, in previews too; see
docs/decisions/0006-create-only-fields.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pulumi

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _known(value: object) -> object:
    """Return a value as a message shows it: in a preview, what replaces a resource has no id yet."""
    if value is pulumi.UNKNOWN:
        return "not known yet"
    return [_known(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def _differs(old: Any, new: Any) -> bool:  # noqa: ANN401 - an input of any shape
    return old != new


def given_and_changed(old: Any, new: Any) -> bool:  # noqa: ANN401 - an input of any shape
    """Whether a value differs from the one in the checkpoint, if that has one.

    It has none of what earlier releases did not report, and of an imported resource what the provider cannot read.
    """
    return old is not None and old != new


def given_and_not_only_longer(old: Any, new: Any) -> bool:  # noqa: ANN401 - an input of any shape
    """Whether a list differs from the one in the checkpoint, if that has one, in more than additions at its end."""
    return old is not None and (not isinstance(new, list) or new[: len(old)] != old)


@dataclass(frozen=True, kw_only=True)
class CreateOnly:
    """An input that counts only when its resource is created."""

    input: str
    """Its name on the wire, such as podVswitchIds."""
    setting: str
    """The setting that determines it."""
    limit: str
    """The reason why it cannot be changed."""
    fix: str
    forbids: Callable[[Any, Any], bool] = _differs
    """Whether it cannot be changed from the first value to the second. Default: it cannot be changed at all."""


def guard(name: str, fields: Sequence[CreateOnly]) -> pulumi.ResourceHookBinding:
    """Return the hooks of a resource that refuse every change of these inputs which the provider would not make.

    Args:
        name: Name of the hook, one for each resource; it is in the engine's message.
        fields: The inputs to guard.
    """

    def refuse(args: pulumi.ResourceHookArgs) -> None:
        check(fields, args.old_inputs or {}, args.new_inputs or {})

    hook = pulumi.ResourceHook(name, refuse, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding(before_update=[hook])


def check(fields: Sequence[CreateOnly], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Compare the inputs in the checkpoint with those of the program; what is not yet known counts as changed.

    Raises:
        RefusalError: an input would change that counts only at creation.
    """
    for field in fields:
        before, after = old.get(field.input), new.get(field.input)
        if field.forbids(before, after):
            was = f"was {_known(before)!r} at creation, and {field.limit}"
            raise RefusalError(field.setting, _known(after), was, field.fix)
