"""What we declare for the Prometheus operator, held against the whole of its own schemas.

The CRDs of a stack hold only their upper levels (infra/monitoring/crds.py): below, the API server would take a misspelt
field without a word.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from infra.crds import read_crds
from infra.monitoring.crds import CRDS, crd_manifests
from tests.fixtures.local_cluster import quiet_progress
from tools.toolchain.charts import prometheus_operator_crds

KINDS = ("Alertmanager", "PodMonitor", "Prometheus", "PrometheusRule", "ServiceMonitor")


def strict(schema: Any) -> Any:
    """Return a CRD's schema as one of JSON Schema that knows no other fields than those it names."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    # Go takes a flag in the middle of a regular expression, Python does not.
    known = {key: value for key, value in schema.items() if not (key == "pattern" and "(?i)" in str(value))}
    closed = {key: strict(value) for key, value in known.items() if not key.startswith("x-kubernetes")}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return closed


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, jsonschema.Draft202012Validator]:
    folder = prometheus_operator_crds(quiet_progress(tmp_path_factory.mktemp("crds")))
    validators = {}
    for crd in read_crds(folder, CRDS, "the Prometheus operator").values():
        whole = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        # Not `jsonschema.validate`, which first checks the schema itself, each time for seconds.
        validators[crd["spec"]["names"]["kind"]] = jsonschema.Draft202012Validator(strict(whole["properties"]["spec"]))
    return validators


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_one_of_the_operators(record_stack, schemas, kind: str) -> None:
    declared = record_stack({"monitoring": {"kind": "operator", "run_webhooks": [{"secret": "chat"}]}}).of_kind(kind)
    assert declared
    for each in declared:
        schemas[kind].validate(each.inputs["spec"])


def test_a_misspelt_field_would_be_seen(schemas) -> None:
    with pytest.raises(jsonschema.ValidationError, match="relabelling"):
        schemas["PodMonitor"].validate({"selector": {}, "podMetricsEndpoints": [{"relabelling": []}]})


def test_what_the_stack_holds_of_them_is_small(tmp_path: Any) -> None:
    crds = crd_manifests(prometheus_operator_crds(quiet_progress(tmp_path)))
    assert set(crds) == set(CRDS)
    assert sum(len(repr(crd)) for crd in crds.values()) < 100_000
