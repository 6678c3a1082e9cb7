"""Small previews by hand, in the engine's own format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from athanor.review.reading import read_preview
from athanor.review.report import report
from athanor.review.stack_review import StackReview, stack_review
from infra.cost import list_prices

if TYPE_CHECKING:
    from athanor.review.running_work import Running

SECRET_MARK = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
POOL = "alicloud:cs/nodePool:NodePool"
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
JOB = "kubernetes:batch.volcano.sh/v1alpha1:Job"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


def urn(token: str, name: str, *parents: str, stack: str = "dev") -> str:
    return f"urn:pulumi:{stack}::project::{'$'.join([*parents, token])}::{name}"


def step(
    operation: str,
    token: str = CONFIG_MAP,
    name: str = "settings",
    old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    *,
    parents: tuple[str, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return one step; `old` and `new`: its inputs."""
    base = {"urn": urn(token, name, *parents), "type": token, "custom": True}
    states = {"oldState": old, "newState": new}
    given = {key: {**base, "inputs": inputs} for key, inputs in states.items() if inputs is not None}
    return {"op": operation, "urn": base["urn"], **given, **more}


def digest(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"steps": list(steps), "duration": 1, "changeSummary": {}, **more})


def reviewed(*steps: dict[str, Any], running: Running | str = "not asked", **more: Any) -> StackReview:
    return stack_review(read_preview(digest(*steps, **more)), list_prices(), running)


def reported(*steps: dict[str, Any], running: Running | str = "not asked", **more: Any) -> str:
    return report([reviewed(*steps, running=running, **more)])


def pool(fewest: int, most: int, *types: str, **more: Any) -> dict[str, Any]:
    """Return the inputs of an autoscaled node pool."""
    scaling = {"enable": True, "minSize": fewest, "maxSize": most}
    return {"instanceTypes": list(types) or ["ecs.gn7i-c8g1.2xlarge"], "scalingConfig": scaling, **more}
