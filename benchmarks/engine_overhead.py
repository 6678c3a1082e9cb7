"""`pulumi up` and `preview` with no change: our program against one that registers as many plain objects."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import interleaved_seconds, spread
from infra.machine import LOCAL_CONTEXT
from tools.engine import Engine
from tools.local_cluster import LocalCluster
from tools.summary import table
from tools.toolchain import ensure

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 5
_NAMESPACE = "athanor-bench"
# The peer: the same provider, the same client limits, nothing but ConfigMaps.
_PLAIN_PROGRAM = """
import pathlib, pulumi, pulumi_kubernetes as k
provider = k.Provider("k", kubeconfig=pulumi.Output.secret(pathlib.Path({kubeconfig!r}).read_text()),
                      context={context!r}, cluster_identifier={context!r},
                      kube_client_settings=k.KubeClientSettingsArgs(qps=1000, burst=2000))
opts = pulumi.ResourceOptions(provider=provider)
space = k.core.v1.Namespace("space", metadata={{"name": {namespace!r}}}, opts=opts)
for i in range({count}):
    k.core.v1.ConfigMap(f"plain-{{i}}", metadata={{"name": f"plain-{{i}}", "namespace": {namespace!r}}},
                        data={{"key": "value"}}, opts=pulumi.ResourceOptions(provider=provider, depends_on=[space]))
"""


def measure(report: Progress) -> Table:
    """Return the table; leaves no object behind."""
    pulumi = ensure(["pulumi"], report)["pulumi"]
    ours = Engine(pulumi=pulumi, stack="local")
    state = json.loads(ours.run("stack", "export", "--stack", "local"))
    count = sum(1 for entry in state["deployment"]["resources"] if entry["type"].startswith("kubernetes:"))
    with tempfile.TemporaryDirectory(prefix="athanor-bench-") as folder:
        plain = _plain_engine(Path(folder), pulumi, count - 1)
        try:
            rows = [_row("pulumi up, no change", Engine.up, ours, plain), _row("preview", _preview, ours, plain)]
        finally:
            plain.destroy()
            plain.forget()
    title = f"{count} Kubernetes objects, {ROUNDS} interleaved rounds, median (range)"
    return table(title, ["command", "athanor", "as many ConfigMaps", "ratio of medians"], rows)


def _plain_engine(folder: Path, pulumi: Path, config_maps: int) -> Engine:
    kubeconfig = str(LocalCluster("local").kubeconfig)
    program = _PLAIN_PROGRAM.format(
        kubeconfig=kubeconfig, context=LOCAL_CONTEXT, namespace=_NAMESPACE, count=config_maps
    )
    (folder / "__main__.py").write_text(program, encoding="utf-8")
    (folder / "Pulumi.yaml").write_text("name: plain\nruntime: python\n", encoding="utf-8")
    engine = Engine(pulumi=pulumi, stack="bench", project=folder)
    engine.prepare()
    engine.up()
    return engine


def _preview(engine: Engine) -> None:
    engine.run("preview", "--stack", engine.stack)


def _row(name: str, run, ours: Engine, plain: Engine) -> list[str]:  # noqa: ANN001 - a method of Engine or alike
    seconds = interleaved_seconds({"ours": lambda: run(ours), "plain": lambda: run(plain)}, ROUNDS)
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["plain"])
    return [name, spread(seconds["ours"]), spread(seconds["plain"]), f"{ratio:.2f}"]
