"""What we declare for the Prometheus operator, held against the whole of its own schemas (tests/crd_schemas.py)."""

from __future__ import annotations

import jsonschema
import pytest

from infra.monitoring.stack import CRDS
from tests.crd_schemas import validators
from tests.fixtures.local_cluster import quiet_progress
from tools.toolchain.charts import prometheus_operator_crds

KINDS = ("Alertmanager", "PodMonitor", "Prometheus", "PrometheusRule", "ServiceMonitor")


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, jsonschema.Draft202012Validator]:
    return validators({prometheus_operator_crds(quiet_progress(tmp_path_factory.mktemp("crds"))): CRDS})


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_one_of_the_operators(record_stack, schemas, kind: str) -> None:
    declared = record_stack({"monitoring": {"kind": "operator", "run_webhooks": [{"secret": "chat"}]}}).of_kind(kind)
    assert declared
    for each in declared:
        schemas[kind].validate(each.inputs["spec"])


def test_a_misspelt_field_would_be_seen(schemas) -> None:
    with pytest.raises(jsonschema.ValidationError, match="relabelling"):
        schemas["PodMonitor"].validate({"selector": {}, "podMetricsEndpoints": [{"relabelling": []}]})
