"""`pulumi preview` of new environments: our program against one of as many plain resources and against an empty one."""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import interleaved_times, spread
from tools.stacks.engine import Engine, make_private_folders
from tools.stacks.preview import existing_for_a_preview
from tools.tables import table
from tools.toolchain import ensure
from tools.toolchain.catalogue import ALICLOUD_PROVIDER

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 3
STACKS = ("dev", "prod")
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
    make_private_folders()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="athanor-bench-") as folder:
        for stack in STACKS:
            rows += _rows(stack, Path(folder) / stack, pulumi)
    title = f"pulumi preview of a new environment, {ROUNDS} interleaved rounds, median (range)"
    return table(title, ["program", "resources", "seconds", "CPU seconds", "CPU, ratio to plain"], rows)


def _rows(stack: str, folder: Path, pulumi: Path) -> list[list[str]]:
    ours = Engine(pulumi=pulumi, stack=stack)
    with ExitStack() as ended:
        ended.enter_context(existing_for_a_preview(ours))
        counts = _counts(ours)
        engines = {
            stack: ours,
            "as many plain resources": _engine(folder / "plain", pulumi, _PLAIN_PROGRAM.format(**counts)),
            "nothing": _engine(folder / "nothing", pulumi, "import pulumi\n"),
        }
        for engine in [*engines.values()][1:]:
            ended.callback(engine.forget)
        previews = {name: partial(_preview, engine) for name, engine in engines.items()}
        times = interleaved_times(previews, ROUNDS)
    plain = statistics.median(each.cpu_seconds for each in times["as many plain resources"])
    return [
        [
            name,
            str(0 if name == "nothing" else sum(counts.values())),
            spread([each.wall_seconds for each in runs]),
            spread([each.cpu_seconds for each in runs]),
            f"{statistics.median(each.cpu_seconds for each in runs) / plain:.2f}",
        ]
        for name, runs in times.items()
    ]


def _counts(engine: Engine) -> dict[str, int]:
    plan = json.loads(engine.run("preview", "--json", "--stack", engine.stack))
    kinds = [step["urn"].split("::")[2].rpartition("$")[2] for step in plan["steps"]]
    return {
        "cloud": sum(kind.startswith("alicloud:") for kind in kinds),
        "objects": sum(kind.startswith("kubernetes:") for kind in kinds),
        "components": sum(kind.startswith("athanor:") for kind in kinds),
    }


def _engine(folder: Path, pulumi: Path, program: str) -> Engine:
    folder.mkdir(parents=True)
    (folder / "__main__.py").write_text(program, encoding="utf-8")
    (folder / "Pulumi.yaml").write_text("name: plain\nruntime: python\n", encoding="utf-8")
    engine = Engine(pulumi=pulumi, stack="bench", project=folder)
    engine.prepare()
    return engine


def _preview(engine: Engine) -> None:
    engine.run("preview", "--stack", engine.stack)
