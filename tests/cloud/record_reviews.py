"""Record the previews that docs/review.md shows: `python -m tests.cloud.record_reviews`, as root, in five minutes.

`dev` is created on a pretended account, with a local cluster behind it, then edited five times; the real engine
previews each edit, which is taken back. What a report does not need is left out of the files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.workload_labels import JOB_LABEL
from tests.api_double.double import ApiDouble
from tests.fixtures.cloud import edit, environment_clone, leave_out_monitoring, load_mirrored_volcano, up
from tests.fixtures.local_cluster import quiet_progress
from tests.unit.athanor.review.recorded import FOLDER, RUNNING
from tests.waiting import wait_until
from tools.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.clone import Clone

STACK = "dev"
_STATE = ("urn", "type", "custom", "parent", "inputs", "retainOnDelete", "delete")


def resize_a_gpu_pool(clone: Clone) -> None:
    edit(clone, STACK, lambda settings: settings["node_pools"][1].update(maximum=8))


def change_an_image(clone: Clone) -> None:
    file = clone.folder / "trainer" / "__init__.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")


def delete_a_volume(clone: Clone) -> None:
    clone.configure(STACK, storage=None)


def swap_an_instance_type(clone: Clone) -> None:
    types = ["ecs.gn7i-c32g1.8xlarge"]
    edit(clone, STACK, lambda settings: settings["node_pools"][1].update(instance_types=types))


def add_a_queue(clone: Clone) -> None:
    queues = [{"name": "training", "weight": 3}, {"name": "research"}]
    clone.configure(STACK, scheduling={"queues": queues})


CHANGES: dict[str, Callable[[Clone], None]] = {
    "resize-a-gpu-pool": resize_a_gpu_pool,
    "change-an-image": change_an_image,
    "delete-a-volume": delete_a_volume,
    "swap-an-instance-type": swap_an_instance_type,
    "add-a-queue": add_a_queue,
}


def record(clone: Clone) -> None:
    """Write one file of the engine's JSON for each change."""
    file, sources = clone.folder / f"Pulumi.{STACK}.yaml", clone.folder / "trainer" / "__init__.py"
    before = {path: path.read_bytes() for path in (file, sources)}
    for name, change in CHANGES.items():
        change(clone)
        printed = clone.pulumi("preview", "--json", "--stack", STACK, merge=False, check=False)
        write(FOLDER / f"{name}.json", smaller(json.loads(printed)))
        for path, content in before.items():
            path.write_bytes(content)


def smaller(digest: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is of one machine or one moment: places in the source, times, outputs."""
    steps = [
        {
            **step,
            **{
                key: {k: step[key][k] for k in _STATE if k in step[key]}
                for key in ("oldState", "newState")
                if key in step
            },
        }
        for step in digest["steps"]
        if step["op"] != "same"
    ]
    kept = ("diagnostics", "changeSummary")
    return {"steps": steps, **{key: digest[key] for key in kept if key in digest}}


def workers_are_placed(cluster: LocalCluster, clone: Clone) -> bool:
    return sum(bool(pod["spec"].get("nodeName")) for pod in objects(cluster, clone) if is_worker(pod)) == 2


def is_worker(item: dict[str, Any]) -> bool:
    return item["kind"] == "Pod" and JOB_LABEL in item["metadata"].get("labels", {})


def objects(cluster: LocalCluster, clone: Clone) -> list[dict[str, Any]]:
    kinds = "nodes,pods,persistentvolumeclaims"
    return json.loads(clone.kubectl(f"--kubeconfig={cluster.kubeconfig}", "get", kinds, "-A", "-o", "json"))["items"]


def smaller_object(item: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a report does not need. Simulated workers end at once: theirs are as they are while they run."""
    kept = ("name", "namespace", "labels", "ownerReferences")
    metadata = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    spec = {key: item["spec"][key] for key in ("nodeName", "volumes", "volumeName") if key in item["spec"]}
    containers = [{"resources": container["resources"]} for container in item["spec"].get("containers", ())]
    status = {"phase": "Running" if is_worker(item) else item["status"].get("phase")}
    return {"kind": item["kind"], "metadata": metadata, "spec": {**spec, "containers": containers}, "status": status}


def write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Create the environment, record, and remove everything."""
    with tempfile.TemporaryDirectory(prefix="athanor-reviews-") as place:
        home = Path(place)
        report = quiet_progress(home)
        cluster = LocalCluster("behind", home=home / "behind")
        try:
            cluster.up(report)
            load_mirrored_volcano(cluster, STACK, report)
            kubeconfig = cluster.kubeconfig.read_text(encoding="utf-8")
            (home / "account").mkdir()
            with ApiDouble(home / "account", settling_reads=0, kubeconfig=kubeconfig) as double:
                clone = environment_clone(home / "clone", home / "home", STACK, double.environment())
                leave_out_monitoring(clone, STACK)
                clone.configure(STACK, storage={"oss": [{"name": "datasets", "bucket": "our-datasets"}]})
                sys.stdout.write(up(clone, STACK))
                wait_until(lambda: workers_are_placed(cluster, clone), "both workers to be placed")
                running = [smaller_object(item) for item in objects(cluster, clone)]
                write(RUNNING, {"items": running})
                record(clone)
        finally:
            cluster.down(report)


if __name__ == "__main__":
    main()
