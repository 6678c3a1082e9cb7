"""What we declare for the Gateway API and Envoy Gateway, held against their whole schemas (tests/crd_schemas.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from infra.gateway.stack import ENVOY_GATEWAY_CRDS, GATEWAY_API_CRDS
from infra.offers import GatewayOffer, PlatformOffers
from tests.crd_schemas import validators
from tests.fixtures.local_cluster import quiet_progress
from tests.recording_engine import Recording, record
from tests.unit.workloads.job_cases import plain_platform
from tools.toolchain.charts import envoy_gateway_crds, gateway_api_crds
from workloads.autoscaling import Autoscaling
from workloads.canary import Canary
from workloads.exposure import Expose, OidcAuth, RateLimit, TokenAuth
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.triton import Thin

PLATFORM_KINDS = ("ClientTrafficPolicy", "EnvoyProxy", "Gateway", "GatewayClass", "ReferenceGrant")
SERVICE_KINDS = {"BackendTrafficPolicy": 3, "HTTPRoute": 3, "SecurityPolicy": 3}
ISSUER = "https://login.example.com"


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, jsonschema.Draft202012Validator]:
    progress = quiet_progress(tmp_path_factory.mktemp("crds"))
    return validators({gateway_api_crds(progress): GATEWAY_API_CRDS, envoy_gateway_crds(progress): ENVOY_GATEWAY_CRDS})


def services() -> None:
    offers = PlatformOffers(gateway=GatewayOffer(domain="models.example.com", public=True))
    platform = replace(plain_platform(), offers=offers)
    tokens, keys = TokenAuth(secret="clients"), OidcAuth(issuer=ISSUER, audiences=["a"], keys="{}")
    published = OidcAuth(issuer=ISSUER, audiences=["a"], keys_url=f"{ISSUER}/keys")
    asked: dict[str, dict[str, Any]] = {
        "plain": {"expose": Expose(auth=tokens), "runtime": Thin(grpc=True)},
        "canary": {
            "expose": Expose(auth=keys, rate_limit=RateLimit(requests=5, per="minute")),
            "version": 1,
            "canary": Canary(version=2, percent=5),
            "replicas": 2,
        },
        "zero": {"expose": Expose(path="/a/b", auth=published), "autoscaling": Autoscaling(minimum=0, maximum=1)},
    }
    for name, more in asked.items():
        TorchScriptService(name, platform, TorchScriptServiceArgs(model="digits", **more))


@pytest.fixture(scope="module")
def declared_services() -> Recording:
    return record(services, preview=False)


@pytest.mark.parametrize("kind", PLATFORM_KINDS)
def test_every_field_of_the_platform_is_one_of_theirs(record_stack, schemas, kind: str) -> None:
    gateway = {"enabled": True, "domain": "models.example.com", "replicas": 2}
    declared = record_stack({"gateway": gateway, "images": {"pull_secrets": ["registry"]}}).of_kind(kind)
    assert declared
    for each in declared:
        schemas[kind].validate(each.inputs["spec"])


@pytest.mark.parametrize("kind", SERVICE_KINDS)
def test_every_field_of_a_service_is_one_of_theirs(declared_services: Recording, schemas, kind: str) -> None:
    declared = declared_services.of_kind(kind)
    assert len(declared) == SERVICE_KINDS[kind]
    for each in declared:
        schemas[kind].validate(each.inputs["spec"])


def test_a_misspelt_field_would_be_seen(schemas) -> None:
    with pytest.raises(jsonschema.ValidationError, match="retires"):
        schemas["BackendTrafficPolicy"].validate({"retires": {}})
