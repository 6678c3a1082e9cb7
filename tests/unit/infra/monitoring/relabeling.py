"""What Prometheus does to labels (Prometheus, Configuration: relabel_config), for tests of monitors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def relabelled(rules: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> dict[str, str] | None:
    """Return the labels that are left, or None where a rule drops the target or the sample."""
    current = dict(labels)
    for rule in rules:
        action = rule.get("action", "replace")
        # the operator leaves an empty regex out, and then anything matches
        pattern = re.compile(rule.get("regex") or "(.*)", re.DOTALL)
        value = rule.get("separator", ";").join(current.get(name, "") for name in rule.get("sourceLabels", []))
        match = pattern.fullmatch(value)
        if action == "labeldrop":
            current = {name: text for name, text in current.items() if not pattern.fullmatch(name)}
        elif action == "replace":
            if match:
                template = re.sub(r"\$\{?(\d+)\}?", r"\\g<\1>", rule.get("replacement", "$1"))
                current[rule["targetLabel"]] = match.expand(template)
        elif action == "keep":
            if not match:
                return None
        elif action == "drop":
            if match:
                return None
        else:
            raise AssertionError(f"a relabelling action that is not known here: {action}")
    return {name: text for name, text in current.items() if text}


def stored(monitor: Mapping[str, Any], target: Mapping[str, str], sample: Mapping[str, str]) -> dict[str, str] | None:
    """Return a sample's labels in the store, or None where it is not stored; `__name__` is the metric's name."""
    spec = monitor["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    of_target = relabelled(endpoint.get("relabelings", []), target)
    if of_target is None:
        return None
    own = {name: text for name, text in of_target.items() if not name.startswith("__")}
    # honorLabels is not set: what a sample says of itself gives way to what is known of its target
    renamed = {f"exported_{name}" if name in own else name: text for name, text in sample.items()}
    return relabelled(endpoint.get("metricRelabelings", []), {**renamed, **own})
