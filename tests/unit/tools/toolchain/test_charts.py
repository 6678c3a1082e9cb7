"""Manifests of upstreams, as they get from their modules into the cache."""

import pytest

from infra.versions import ENVOY_GATEWAY, GATEWAY_API, PROMETHEUS_OPERATOR, VOLCANO
from tools.toolchain import charts, upstream_manifests
from tools.toolchain.charts import envoy_gateway_crds, gateway_api_crds, prometheus_operator_crds, volcano_chart
from tools.toolchain.go_command import Go

FOLDERS = (
    "installer/helm/chart",
    "example/prometheus-operator-crd",
    "config/crd/standard",
    "charts/gateway-helm/charts/crds/crds/generated",
)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Stand in for the module proxy: every module is this folder."""
    folder = tmp_path / "module"
    files = ("volcano/crd/bases/jobs.yaml", "rules.yaml", "routes.yaml", "proxies.yaml")
    for file in [f"{folder}/{name}" for folder, name in zip(FOLDERS, files, strict=True)]:
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text("kind: CustomResourceDefinition\n")
    monkeypatch.setattr(charts, "find_go", lambda *_: tmp_path / "go")
    monkeypatch.setattr(Go, "module_folder", lambda *_: folder)
    return folder


@pytest.mark.parametrize(
    ("get", "name", "file"),
    [
        (volcano_chart, f"volcano-{VOLCANO}", "crd/bases/jobs.yaml"),
        (prometheus_operator_crds, f"prometheus-operator-{PROMETHEUS_OPERATOR}", "rules.yaml"),
        (gateway_api_crds, f"gateway-api-{GATEWAY_API}", "routes.yaml"),
        (envoy_gateway_crds, f"envoy-gateway-{ENVOY_GATEWAY}", "proxies.yaml"),
    ],
)
@pytest.mark.usefixtures("module")
def test_manifests_are_copied_once_from_their_module(get, name, file, tmp_path, monkeypatch):
    folder = get()
    assert folder == tmp_path / "cache" / "charts" / name
    assert (folder / file).is_file()
    monkeypatch.setattr(charts, "find_go", None)
    assert get() == folder


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("gateway", [False, True])
def test_all_of_them_are_there_for_the_program_that_declares_them(tmp_path, gateway):
    upstream_manifests(gateway=gateway)
    folders = {folder.name for folder in (tmp_path / "cache" / "charts").iterdir()}
    of_the_gateway = {f"gateway-api-{GATEWAY_API}", f"envoy-gateway-{ENVOY_GATEWAY}"}
    assert folders == {
        f"volcano-{VOLCANO}",
        f"prometheus-operator-{PROMETHEUS_OPERATOR}",
        *(of_the_gateway if gateway else ()),
    }
