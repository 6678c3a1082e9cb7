"""What an existing stack is compared with in a preview, as files: a move in the code must not replace a resource.

The engine knows a resource by its URN: the types of its parents, its own type and its logical name. If one of them
changes without an alias, the resource is deleted and created again: a cluster, or a file system with its data. The
files hold what earlier versions of the program registered. `UPDATE_GOLDEN=1 make test-fast` rewrites them. If a line of
`urns-*.txt` changes or goes, add `aliases` to that resource, or say in CHANGELOG.md what is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.manifests.test_golden import GOLDEN, UPDATE
from tests.recording_engine import UNKNOWN, Secret
from tests.tables import each_row
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from tests.fixtures.recorded_stack import StackRecorder
    from tests.recording_engine import Recording, Registration


def _record(record_stack: StackRecorder, stack: str) -> Recording:
    return record_stack() if stack == "local" else record_stack(stack_config(stack), stack=stack)


def _identity(resource: Registration) -> str:
    return f"{resource.urn} parent={resource.parent.rpartition('::')[2]}"


def _inputs(resource: Registration) -> dict[str, Any]:
    """Return what the provider compares with the state, and what decides how a difference is applied."""
    options = {
        "delete_before_replace": resource.delete_before_replace,
        "ignore_changes": list(resource.ignore_changes),
        "protect": resource.protect,
        "replace_on_changes": list(resource.replace_on_changes),
    }
    return {"inputs": _plain(resource.inputs), "options": {name: value for name, value in options.items() if value}}


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return {"secret": _plain(value.value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return "<unknown>" if value is UNKNOWN else value


def _compare(name: str, text: str, advice: str) -> None:
    file = GOLDEN / name
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), advice


@each_row("stack", ["local", "dev", "staging", "prod"])
def test_resources_keep_their_identity(record_stack, stack):
    resources = _record(record_stack, stack).resources.values()
    text = "".join(f"{identity}\n" for identity in sorted(map(_identity, resources)))
    _compare(f"urns-{stack}.txt", text, "a resource has another name, type or parent, or is new or gone: see above")


def test_resources_of_the_cloud_keep_their_inputs(record_stack):
    """Many of these are create-only: another value replaces the cluster, its network or its storage."""
    resources = _record(record_stack, "dev").resources.values()
    inputs = {resource.urn: _inputs(resource) for resource in resources if resource.type.startswith("alicloud:")}
    text = yaml.safe_dump(inputs, sort_keys=True, width=120, allow_unicode=True)
    _compare("alicloud-dev.yaml", text, "`pulumi preview` of an existing dev would show this difference")
