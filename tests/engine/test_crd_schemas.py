"""The CRDs that a stack declares, held against upstream's files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from infra.gateway import stack as gateway
from infra.monitoring.stack import crd_manifests as monitoring_crds
from infra.volcano.crds import crd_manifests as volcano_crds
from tests.fixtures.local_cluster import quiet_progress
from tools.toolchain.charts import envoy_gateway_crds, gateway_api_crds, prometheus_operator_crds, volcano_chart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDED = {"allOf", "maximum", "minLength", "minimum", "pattern"}
"""Keywords that narrow a schema to values that Go can decode (infra/crds.py)."""


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Any]:
    """The CRDs of all upstreams, by the file that each is from."""
    progress = quiet_progress(tmp_path_factory.mktemp("crds"))
    chart, operator = volcano_chart(progress), prometheus_operator_crds(progress)
    folders = (chart / "crd" / "bases", operator, gateway_api_crds(progress), envoy_gateway_crds(progress))
    crds = {**volcano_crds(chart), **monitoring_crds(operator), **gateway.crd_manifests()}
    files = {folder / f"{name}.yaml": crd for name, crd in crds.items() for folder in folders}
    return {file: crd for file, crd in files.items() if file.is_file()}


def differences(upstream: Any, ours: Any, place: str) -> Iterator[str]:
    """Yield where a declared schema differs from upstream's, but for descriptions and what narrows it."""
    if isinstance(upstream, dict) and isinstance(ours, dict):
        names = {name for name, value in upstream.items() if not (name == "description" and isinstance(value, str))}
        if "allOf" in ours.keys() - names:
            ours = ours["allOf"][0] | ours
        if names - ours.keys() or ours.keys() - names - ADDED:
            yield f"{place}: {sorted(names ^ ours.keys())}"
        for name in names & ours.keys() - ({"pattern"} if upstream.get("x-kubernetes-int-or-string") else set()):
            yield from differences(upstream[name], ours[name], f"{place}.{name}")
    elif isinstance(upstream, list) and isinstance(ours, list) and len(upstream) == len(ours):
        for number, each in enumerate(upstream):
            yield from differences(each, ours[number], f"{place}[{number}]")
    elif upstream != ours:
        yield f"{place}: {upstream!r}, {ours!r}"


def test_every_schema_is_upstreams_whole(declared: dict[Path, Any]) -> None:
    """A cut schema stores objects that a controller cannot decode, and one such object stops it for everybody."""
    assert len(declared) == 22
    for file, crd in declared.items():
        # A bare `=` is a text to Kubernetes, and to YAML 1.1 a type of its own: all values as texts, then.
        upstream = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
        ours = yaml.load(json.dumps(crd["spec"]), Loader=yaml.CBaseLoader)
        assert list(differences(upstream["spec"], ours, file.stem)) == []
