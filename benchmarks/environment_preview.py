"""`pulumi preview` of `prod`, all features on: our program against one that registers as many plain resources."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import interleaved_seconds, spread
from tools.stacks.engine import Engine
from tools.stacks.preview import existing_for_a_preview
from tools.tables import table
from tools.toolchain import ensure
from tools.toolchain.catalogue import ALICLOUD_PROVIDER

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 5
STACK = "prod"
# The peer: the same two providers, of which the second waits for the first as ours does, and components without work.
_PLAIN_PROGRAM = """
import pulumi, pulumi_alicloud as alicloud, pulumi_kubernetes as k
cloud = alicloud.Provider("cloud", region="cn-beijing", account_type="Domestic", access_key="a", secret_key="b")
vpcs = [alicloud.vpc.Network(f"vpc-{{i}}", vpc_name=f"vpc-{{i}}", cidr_block="10.0.0.0/8",
                             opts=pulumi.ResourceOptions(provider=cloud)) for i in range({cloud})]
cluster = k.Provider("cluster", kubeconfig=vpcs[0].id, cluster_identifier=vpcs[0].id)
for i in range({objects}):
    k.core.v1.ConfigMap(f"plain-{{i}}", metadata={{"name": f"plain-{{i}}"}}, data={{"key": "value"}},
                        opts=pulumi.ResourceOptions(provider=cluster))
for i in range({components}):
    pulumi.ComponentResource("plain:index:Component", f"component-{{i}}")
"""


def measure(report: Progress) -> Table:
    """Return the table; leaves no stack behind. Needs no cloud and no cluster."""
    pulumi = ensure(["pulumi", "pulumi-language-python", "pulumi-resource-kubernetes", ALICLOUD_PROVIDER], report)[
        "pulumi"
    ]
    ours = Engine(pulumi=pulumi, stack=STACK)
    with tempfile.TemporaryDirectory(prefix="athanor-bench-") as folder, existing_for_a_preview(ours):
        plain = _plain_engine(Path(folder), pulumi, _counts(ours))
        try:
            seconds = interleaved_seconds({"ours": lambda: _preview(ours), "plain": lambda: _preview(plain)}, ROUNDS)
        finally:
            plain.forget()
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["plain"])
    title = f"pulumi preview of a new {STACK}, {ROUNDS} interleaved rounds, median (range)"
    row = ["preview", spread(seconds["ours"]), spread(seconds["plain"]), f"{ratio:.2f}"]
    return table(title, ["command", "athanor", "as many plain resources", "ratio of medians"], [row])


def _counts(engine: Engine) -> dict[str, int]:
    plan = json.loads(engine.run("preview", "--json", "--stack", engine.stack))
    kinds = [step["urn"].split("::")[2].rpartition("$")[2] for step in plan["steps"]]
    return {
        "cloud": sum(kind.startswith("alicloud:") for kind in kinds),
        "objects": sum(kind.startswith("kubernetes:") for kind in kinds),
        "components": sum(kind.startswith("athanor:") for kind in kinds),
    }


def _plain_engine(folder: Path, pulumi: Path, counts: dict[str, int]) -> Engine:
    (folder / "__main__.py").write_text(_PLAIN_PROGRAM.format(**counts), encoding="utf-8")
    (folder / "Pulumi.yaml").write_text("name: plain\nruntime: python\n", encoding="utf-8")
    engine = Engine(pulumi=pulumi, stack="bench", project=folder)
    engine.prepare()
    return engine


def _preview(engine: Engine) -> None:
    engine.run("preview", "--stack", engine.stack)
