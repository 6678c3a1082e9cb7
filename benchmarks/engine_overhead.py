"""`pulumi up` and `preview` with no change: our program, one that registers as many plain objects, and an empty one."""

from __future__ import annotations

import json
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import interleaved_seconds, spread
from infra.machine import LOCAL_CONTEXT
from tools.local_cluster import LocalCluster
from tools.stacks.engine import Engine
from tools.tables import table
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        plain = _engine(Path(folder) / "plain", pulumi, _plain_program(count - 1))
        # What is left then: the engine, its plugins' start and its language host, and the import of its SDK.
        empty = _engine(Path(folder) / "empty", pulumi, "import pulumi")
        engines = {"ours": ours, "plain": plain, "empty": empty}
        try:
            rows = [_row("pulumi up, no change", Engine.up, engines), _row("preview", _preview, engines)]
        finally:
            for engine in (plain, empty):
                engine.destroy()
                engine.forget()
    title = f"{count} Kubernetes objects, {ROUNDS} interleaved rounds, median (range)"
    return table(title, ["command", "athanor", "as many ConfigMaps", "ratio of medians", "empty program"], rows)


def _plain_program(config_maps: int) -> str:
    kubeconfig = str(LocalCluster("local").kubeconfig)
    return _PLAIN_PROGRAM.format(kubeconfig=kubeconfig, context=LOCAL_CONTEXT, namespace=_NAMESPACE, count=config_maps)


def _engine(folder: Path, pulumi: Path, program: str) -> Engine:
    folder.mkdir()
    (folder / "__main__.py").write_text(program, encoding="utf-8")
    (folder / "Pulumi.yaml").write_text(f"name: {folder.name}\nruntime: python\n", encoding="utf-8")
    engine = Engine(pulumi=pulumi, stack="bench", project=folder)
    engine.prepare()
    engine.up()
    return engine


def _preview(engine: Engine) -> None:
    engine.run("preview", "--stack", engine.stack)


def _row(name: str, run: Callable[[Engine], None], engines: Mapping[str, Engine]) -> list[str]:
    seconds = interleaved_seconds({key: partial(run, engine) for key, engine in engines.items()}, ROUNDS)
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["plain"])
    return [name, spread(seconds["ours"]), spread(seconds["plain"]), f"{ratio:.2f}", spread(seconds["empty"])]
