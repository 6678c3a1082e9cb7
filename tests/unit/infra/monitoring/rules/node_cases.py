"""How nodes and the platform's pods do, and when somebody must know."""

from tests.unit.infra.monitoring.rules.promtool import AlertCase


def _condition(node, condition, values):
    return {f'kube_node_status_condition{{node="{node}", condition="{condition}", status="true"}}': values}


def _waiting(reason, values, namespace="volcano-system"):
    labels = f'namespace="{namespace}", pod="scheduler-0", container="scheduler", reason="{reason}"'
    return {f"kube_pod_container_status_waiting_reason{{{labels}}}": values}


CASES = (
    AlertCase(
        alert="NodeNotReady",
        says="for ten minutes",
        series={**_condition("n1", "Ready", "1x4 0x20 1x40"), **_condition("n2", "Ready", "1x4 0x5 1x60")},
        fires={"16m": [{"node": "n1"}], "24m": [{"node": "n1"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="NodeUnderPressure",
        says="for ten minutes; being ready does not count as pressure",
        series={
            **_condition("n1", "DiskPressure", "0x4 1x20 0x40"),
            **_condition("n1", "Ready", "1x100"),
            **_condition("n2", "MemoryPressure", "0x100"),
        },
        fires={"16m": [{"node": "n1", "condition": "DiskPressure"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="PlatformPodCrashLooping",
        says="though it runs for a moment between crashes; what users' pods do is theirs",
        series={
            **_waiting("CrashLoopBackOff", "_x5 1x6 _x2 1x10 stale"),
            **_waiting("CrashLoopBackOff", "_x5 1x6 _x2 1x10 stale", namespace="gateway-system"),
            **_waiting("CrashLoopBackOff", "1x100", namespace="team"),
            **_waiting("ContainerCreating", "1x100", namespace="monitoring"),
        },
        fires={
            "17m": [
                {"namespace": namespace, "pod": "scheduler-0", "container": "scheduler"}
                for namespace in ("volcano-system", "gateway-system")
            ]
        },
        quiet=["14m", "35m"],
    ),
)
