"""Answers to every query of every dashboard, whose labels want to be read as markup."""

import math
import re
from collections.abc import Callable

SCRIPT = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LABELS = {
    "namespace": "athanor",
    "workload": f"digits{SCRIPT}",
    "pod": SCRIPT,
    "node": "<b>node</b>",
    "queue": "a&b<i>",
    "queue_name": "<a href='javascript:alert(1)'>queue</a>",
    "rank": "0",
    "run": "run",
    "role": "${workload}",
}


def answer(query: str) -> list[tuple[dict[str, str], Callable[[float], float]]]:
    """Yield two series, but for one query, which is refused, and one without data."""
    if "volcano_pod_preemption_victims" in query:
        raise ValueError("parse error: <b>unexpected</b> end of input")
    if "athanor_training_test_accuracy" in query:
        return []
    chosen = re.match(r"group by \((\w+)\)", query)
    if chosen:
        return [({chosen[1]: LABELS[chosen[1]]}, lambda _: 1.0)]
    if "last_step_timestamp" in query and "by (namespace, workload, run)" in query:
        labels = {name: LABELS[name] for name in ("namespace", "workload", "run")}
        return [(labels, lambda time: time - 600)]
    if re.match(r"max\(.*learning_rate", query):
        return [({}, lambda _: math.nan)]
    return [(LABELS, lambda time: 0.5 + 0.4 * math.sin(time / 60)), (LABELS | {"rank": "1"}, lambda _: 0.25)]
