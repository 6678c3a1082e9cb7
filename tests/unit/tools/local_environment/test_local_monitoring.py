"""Where a person finds what is watched."""

from infra.settings.parse import parse_settings
from tests.tables import each_row
from tools.images.platform_images import ADAPTER, MONITORING_IMAGES
from tools.local_environment import local_monitoring

THEIRS = {"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}}


class Cluster:
    """Answers as kubectl does: these Services, with addresses in their order."""

    def __init__(self, *services: str) -> None:
        self.services = services

    def items(self, kind: str, namespace: str) -> list[dict[str, object]]:
        assert (kind, namespace) == ("services", "monitoring")
        return [
            {"metadata": {"name": name}, "spec": {"clusterIP": f"10.0.0.{index}"}}
            for index, name in enumerate(self.services, start=1)
        ]


EVERYTHING = Cluster("prometheus", "alertmanager", "grafana", "victoria-logs")


def rows(raw, cluster=EVERYTHING):
    return dict(local_monitoring.address_rows(parse_settings(raw), cluster))


def test_the_local_cluster_is_opened_at_the_addresses_of_its_services():
    assert rows({"monitoring": {"grafana": False}}) == {
        "metrics": "http://10.0.0.1:9090/consoles/index.html",
        "alerts": "http://10.0.0.2:9093/api/v2/alerts",
        "logs": "http://10.0.0.4:9428/select/vmui",
    }


def test_what_is_not_there_yet_is_not_shown():
    assert rows({}, Cluster("prometheus")) == {"metrics": "http://10.0.0.1:9090/consoles/index.html"}


def test_another_cluster_is_opened_through_kubectl():
    commands = rows(THEIRS, Cluster())
    assert set(commands) == {"metrics", "alerts", "dashboards", "logs"}
    assert commands["dashboards"] == "kubectl port-forward -n monitoring service/grafana 3000"


@each_row(
    ("settings", "expected"),
    [
        ({"kind": "none"}, set()),
        ({"kind": "existing", "selector_labels": {"release": "kps"}}, {"logs"}),
        ({"logs": {"kind": "none"}}, {"metrics", "alerts", "dashboards"}),
    ],
    ids=["none", "existing", "no-logs"],
)
def test_only_what_runs_is_shown(settings, expected):
    assert set(rows({**THEIRS, "monitoring": settings})) == expected


def test_the_node_needs_the_images_of_what_runs():
    assert tuple(local_monitoring.images(parse_settings({}))) == MONITORING_IMAGES
    assert tuple(local_monitoring.images(parse_settings({"monitoring": {"kind": "none"}}))) == ()


@each_row(("kind", "is_needed"), [("operator", True), ("none", False)])
def test_what_autoscalers_read_is_built_only_where_a_stack_asks_for_it(kind, is_needed):
    asked = parse_settings({"monitoring": {"kind": kind, "autoscaling": {"enabled": True}}})
    assert (ADAPTER in local_monitoring.images(asked)) is is_needed
    assert ADAPTER not in local_monitoring.images(parse_settings({}))
