"""Every wrong setting is refused with its key, its value, and the fix."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES
from infra.settings.parse import SettingsError, parse_settings
from infra.settings.stack import Settings
from infra.settings.tree import every_field, is_row
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row
from tools.stacks.engine import stack_config
from workloads.resources import Resources

OWN = {"kubeconfig": "~/.kube/config", "context": "kind-athanor"}
GPU_NODE = "ecs.gn7i-c8g1.2xlarge"
OF_TODAY: dict[str, Any] = {"as_of": "2026-11-01", "per_hour": {GPU_NODE: 7.1}}

# what is wrong, the key that is named, the value that is shown, words of the fix
REFUSED: list[tuple[dict[str, Any], str, str, str]] = [
    ({"namspace": "a"}, "namspace", "", "did you mean namespace"),
    ({"fpga": 1}, "fpga", "", "use one of alicloud, clean_up, cluster, digits"),
    ({"namespace": "Athanor"}, "namespace", "'Athanor'", "at most 63"),
    ({"namespace": ""}, "namespace", "''", "at most 63"),
    ({"namespace": "-a"}, "namespace", "'-a'", "starting with a letter or digit"),
    ({"namespace": "a" * 64}, "namespace", "'aaaa", "at most 63"),
    ({"namespace": "a.b"}, "namespace", "'a.b'", "at most 63"),
    ({"namespace": "a\n"}, "namespace", "'a\\n'", "at most 63"),
    ({"namespace": "mañana"}, "namespace", "'mañana'", "at most 63"),
    ({"namespace": 7}, "namespace", "7", "Namespace for the workloads"),
    ({"namespace": "kube-system"}, "namespace", "'kube-system'", "belongs to Kubernetes"),
    ({"namespace": "default"}, "namespace", "'default'", "such as athanor"),
    ({"namespace": "volcano-system"}, "namespace", "'volcano-system'", "the platform's own components"),
    ({"namespace": "ack-csi-fuse"}, "namespace", "'ack-csi-fuse'", "belongs to ACK"),
    (
        {"monitoring": {"run_webhooks": [{"secret": "s"}, {"secret": "s", "queue": "trainig"}]}},
        "",
        "'trainig'",
        "did you mean training?",
    ),
    *(
        ({"scheduling": {"quota": {"resources": {name: "1"}}}}, "scheduling.quota.resources", name, words)
        for name, words in (
            ("nvidia.com/ gpu", "is not a valid resource name"),
            ("gpu s", "is not a valid resource name"),
            ("gpus", "is not a resource that quotas know"),
            ("limits.cpu", "write cpu, which counts requests"),
            ("limits.nvidia.com/gpu", "write nvidia.com/gpu, which counts requests"),
        )
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": {"nvidia.com/g pu": "1"}}]}},
        "scheduling.queues.0.capability",
        "nvidia.com/g pu",
        "is not a valid resource name",
    ),
    (
        {"monitoring": {"run_webhooks": [{"secret": "s"}, {"secret": "t"}, {"secret": "s"}]}},
        "monitoring",
        "run_webhooks repeats the secret s of all jobs",
        "list it once",
    ),
    *(
        ({"package_index": {"url": url, "addresses": ["10.64.3.7/32"]}}, "package_index.url", value, words)
        for url, value, words in (
            ("https://me:secret@pypi.example/simple", "'https://…@pypi.example/simple'", "has credentials"),
            ("pypi.example/simple", "'pypi.example/simple'", "write https://HOST/PATH"),
            ("file:///wheels", "'file:///wheels'", "write https://HOST/PATH"),
            ("https://pypi.example:99999/simple", "", "write https://HOST/PATH"),
        )
    ),
    ({"package_index": {"url": "https://x/simple", "addresses": []}}, "package_index.addresses", "", "at least 1"),
    (
        {"package_index": {"url": "https://x/simple", "addresses": ["10.0.0.0/8"]}},
        "package_index.addresses",
        "10.0.0.0/8",
        "write the hosts that serve it",
    ),
    ({"leave_namespace": "A"}, "leave_namespace", "'A'", "at most 63"),
    ({"digits": {"width": 10}}, "digits.width", "10", "a multiple of 4"),
    ({"prices": {"per_hour": {GPU_NODE: 7.1}}}, "prices.as_of", "", "Day on which the prices were read"),
    ({"prices": {**OF_TODAY, "per_hour": {}}}, "prices.per_hour", "", "Price of one hour by instance type"),
    ({"prices": {**OF_TODAY, "per_hour": {GPU_NODE: -1}}}, f"prices.per_hour.{GPU_NODE}", "-1", "such as 7.1"),
    ({"prices": {**OF_TODAY, "per_hour": {GPU_NODE: "7"}}}, f"prices.per_hour.{GPU_NODE}", "'7'", "such as 7.1"),
    ({"prices": {**OF_TODAY, "per_hour": {GPU_NODE[4:]: 7}}}, "prices.per_hour", GPU_NODE[4:], f"mean {GPU_NODE}"),
    ({"prices": {**OF_TODAY, "per_hour": {GPU_NODE: True}}}, f"prices.per_hour.{GPU_NODE}", "True", "such as 7.1"),
    (
        {"prices": {**OF_TODAY, "per_hour": {GPU_NODE: float("nan")}}},
        f"prices.per_hour.{GPU_NODE}",
        "nan",
        "at least 0",
    ),
    ({"prices": {**OF_TODAY, "currency": "yuan"}}, "prices.currency", "'yuan'", "ISO 4217"),
    ({"prices": {**OF_TODAY, "as_of": "soon"}}, "prices.as_of", "'soon'", "Day on which"),
    ({"digits": {"gpus_per_worker": 1}}, "digits.gpus_per_worker", "1", "the local cluster's node has no GPU"),
    ({"cluster": "kind"}, "cluster", "'kind'", "Which Kubernetes cluster"),
    ({"cluster": {"kubeconfig": "~/k"}}, "cluster", "'~/k'", "set cluster.context"),
    ({"cluster": {"context": "kind"}}, "cluster", "'kind'", "set cluster.kubeconfig"),
    ({"cluster": {**OWN, "contexts": "a"}}, "cluster.contexts", "", "did you mean context"),
    ({"cluster": {"simulated_nodes": GPU_NODE}}, "cluster.simulated_nodes", GPU_NODE, "Simulated GPU nodes"),
    ({"cluster": {"simulated_nodes": [{}]}}, "cluster.simulated_nodes.0.instance_type", "", "infra/instance_types"),
    (
        {"cluster": {"simulated_nodes": [{"instance_type": "gn7i-c8g1.2xlarge"}]}},
        "cluster.simulated_nodes.0.instance_type",
        "'gn7i-c8g1.2xlarge'",
        f"did you mean {GPU_NODE}",
    ),
    (
        {"cluster": {"simulated_nodes": [{"instance_type": GPU_NODE, "count": 0}]}},
        "cluster.simulated_nodes.0.count",
        "0",
        "How many",
    ),
    (
        {"cluster": {"simulated_nodes": [{"instance_type": GPU_NODE, "count": 5001}]}},
        "cluster.simulated_nodes.0.count",
        "5001",
        "less than or equal to 5000",
    ),
    (
        {"cluster": {"simulated_nodes": [{"instance_type": GPU_NODE, "gpus": 8}]}},
        "cluster.simulated_nodes.0.gpus",
        "",
        "use one of count, instance_type",
    ),
    (
        {"cluster": {"simulated_nodes": [{"instance_type": GPU_NODE}, {"instance_type": GPU_NODE, "count": 2}]}},
        "cluster",
        GPU_NODE,
        "one entry per type",
    ),
    ({"storage": {"storage_class": "nas"}}, "storage.storage_class", "'nas'", "omit it"),
    ({"cluster": OWN, "storage": {"storage_class": "NAS"}}, "storage.storage_class", "'NAS'", "at most 253"),
    ({"cluster": OWN, "storage": {"storage_class": "a..b"}}, "storage.storage_class", "'a..b'", "both ends"),
    ({"storage": {"access_mode": "RWX"}}, "storage.access_mode", "'RWX'", "'ReadWriteMany'"),
    ({"storage": {"data_size_gib": 0}}, "storage.data_size_gib", "0", "GiB"),
    ({"storage": {"data_size_gib": "5Gi"}}, "storage.data_size_gib", "'5Gi'", "GiB"),
    ({"storage": {"output_size_gib": 65537}}, "storage.output_size_gib", "65537", "less than or equal to 65536"),
    ({"storage": {"output_size_gib": 1.5}}, "storage.output_size_gib", "1.5", "GiB"),
    ({"storage": {"size": 5}}, "storage.size", "", "use one of access_mode"),
    ({"scheduling": {"install": "maybe"}}, "scheduling.install", "'maybe'", "Set to false if"),
    ({"scheduling": {"queues": []}}, "scheduling", "no queues", "name at least one"),
    ({"scheduling": {"queues": "training"}}, "scheduling.queues", "'training'", "Queues to create"),
    ({"scheduling": {"queues": [{"weight": 1}]}}, "scheduling.queues.0.name", "", "Name of the queue"),
    ({"scheduling": {"queues": [{"name": "Prod"}]}}, "scheduling.queues.0.name", "'Prod'", "at most 63"),
    ({"scheduling": {"queues": [{"name": "default"}]}}, "scheduling", "'default'", "choose another name"),
    ({"scheduling": {"queues": [{"name": "root"}]}}, "scheduling", "'root'", "choose another name"),
    ({"scheduling": {"queues": [{"name": "a"}, {"name": "a"}]}}, "scheduling", "a, a", "its own name"),
    ({"scheduling": {"queues": [{"name": "a", "weight": 0}]}}, "scheduling.queues.0.weight", "0", "Share of"),
    ({"scheduling": {"queues": [{"name": "a", "wieght": 2}]}}, "scheduling.queues.0.wieght", "", "did you mean weight"),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": {"cpu": "eight"}}]}},
        "scheduling.queues.0.capability.cpu",
        "'eight'",
        "such as 500m, 2 or 4Gi",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": {"cpu": "-1"}}]}},
        "scheduling.queues.0.capability.cpu",
        "'-1'",
        "such as 500m, 2 or 4Gi",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": {"cpu": "٣"}}]}},
        "scheduling.queues.0.capability.cpu",
        "'٣'",
        "such as 500m, 2 or 4Gi",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": ["cpu"]}]}},
        "scheduling.queues.0.capability",
        "['cpu']",
        "Hard limit by resource name",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "guaranteed_percent": 101}]}},
        "scheduling.queues.0.guaranteed_percent",
        "101",
        "less than or equal to 100",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "maximum_percent": 0}]}},
        "scheduling.queues.0.maximum_percent",
        "0",
        "greater than or equal to 1",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "guaranteed_percent": 50, "maximum_percent": 40}]}},
        "scheduling.queues.0",
        "maximum_percent = 40",
        "lower the first",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "maximum_percent": 40, "capability": {"cpu": 8}}]}},
        "scheduling.queues.0",
        "maximum_percent = 40",
        "omit one",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "guaranteed_percent": 4, "guarantee": {"cpu": 8}}]}},
        "scheduling.queues.0",
        "guaranteed_percent = 4",
        "omit one",
    ),
    (
        {"scheduling": {"queues": [{"name": name, "guaranteed_percent": 60} for name in "ab"]}},
        "scheduling",
        "120: a 60, b 60",
        "lower some",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "deserved": {"cpu": 8}}, {"name": "b"}]}},
        "scheduling",
        "not for b",
        "for every queue, or for none",
    ),
    (
        {"scheduling": {"priority_classes": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}},
        "scheduling",
        "'a'",
        "a different name",
    ),
    (
        {"scheduling": {"priority_classes": [{"name": "a", "value": 1_000_000_001}]}},
        "scheduling.priority_classes.0.value",
        "1000000001",
        "less than or equal to 1000000000",
    ),
    (
        {"scheduling": {"priority_classes": [{"name": "a", "value": True}]}},
        "scheduling.priority_classes.0.value",
        "True",
        "write it in digits",
    ),
    (
        {"scheduling": {"priority_classes": [{"name": "team.a", "value": 1}]}},
        "scheduling.priority_classes.0.name",
        "'team.a'",
        "at most 63",
    ),
    ({"scheduling": {"quota": {"percent": 0}}}, "scheduling.quota.percent", "0", "greater than or equal to 1"),
    (
        {"scheduling": {"quota": {"resources": {"pods": "many"}}}},
        "scheduling.quota.resources.pods",
        "'many'",
        "such as 500m, 2 or 4Gi",
    ),
    (
        {"scheduling": {"container_defaults": {"memory": "1 GB"}}},
        "scheduling.container_defaults.memory",
        "'1 GB'",
        "write a number of bytes, or a number with a unit, such as 4Gi",
    ),
    (
        {"scheduling": {"container_defaults": {"memory": 2}}},
        "scheduling.container_defaults.memory",
        "2",
        "with its unit: 2Gi",
    ),
    (
        {"scheduling": {"container_defaults": {"ephemeral_storage": "64"}}},
        "scheduling.container_defaults.ephemeral_storage",
        "'64'",
        "with its unit: 64Gi",
    ),
    (
        {"scheduling": {"queues": [{"name": "a", "capability": {"cpu": 8, "memory": 64}}]}},
        "scheduling.queues.0.capability",
        "memory = '64'",
        "with its unit, such as 64Gi",
    ),
    (
        {"scheduling": {"quota": {"resources": {"requests.storage": 500}}}},
        "scheduling.quota.resources",
        "requests.storage = '500'",
        "with its unit, such as 64Gi",
    ),
    (
        {"monitoring": {"autoscaling": {"resource_metrics": True}}},
        "monitoring.autoscaling",
        "resource_metrics = True",
        "set enabled to true",
    ),
    (
        {"cluster": OWN, "gateway": {"enabled": True, "address": "internal"}},
        "gateway.address",
        "'internal'",
        "use 'public' with allowed_cidrs, or 'cluster'",
    ),
    ({"monitoring": {"memory_limit": 4}}, "monitoring.memory_limit", "4", "with its unit: 4Gi"),
    ({"images": {"trainer_variant": "tpu"}}, "images.trainer_variant", "'tpu'", "'cpu' or 'gpu'"),
    ({"images": {"trainer": "team/trainer"}}, "images.trainer", "'team/trainer'", "a tag other than latest"),
    ({"images": {"trainer": "team/trainer:latest"}}, "images.trainer", "latest'", "a tag other than latest"),
    ({"images": {"trainer": "here:5000/trainer"}}, "images.trainer", "'here:5000/trainer'", "@sha256:"),
    ({"images": {"trainer": "trainer@sha256:12"}}, "images.trainer", "'trainer@sha256:12'", "the digest"),
    ({"images": {"trainer": ""}}, "images.trainer", "''", "a tag other than latest"),
    ({"digits": {"enabled": "perhaps"}}, "digits.enabled", "'perhaps'", "includes the example"),
    ({"digits": {"workers": 0}}, "digits.workers", "0", "Training pods"),
    ({"digits": {"workers": 65}}, "digits.workers", "65", "less than or equal to 64"),
    ({"digits": {"workers": "two"}}, "digits.workers", "'two'", "Training pods"),
    ({"digits": {"worker": 2}}, "digits.worker", "", "did you mean workers"),
    ({"digits": {"cpus_per_worker": "4Gi"}}, "digits.cpus_per_worker", "'4Gi'", "500m"),
    ({"digits": {"cpus_per_worker": "half"}}, "digits.cpus_per_worker", "'half'", "500m"),
    ({"digits": {"cpus_per_worker": True}}, "digits.cpus_per_worker", "True", "CPU request"),
    ({"digits": {"workers": 3}}, "digits", "batch_size = 32", "use 30"),
    ({"digits": {"workers": 64}}, "digits", "workers = 64", "use 64"),
    ({"digits": {"width": 0}}, "digits.width", "0", "first layer"),
    ({"digits": {"epochs": 0}}, "digits.epochs", "0", "Passes over"),
    ({"digits": {"batch_size": 4097}}, "digits.batch_size", "4097", "less than or equal to 4096"),
    ({"digits": {"seed": -1}}, "digits.seed", "-1", "Seed of"),
    ({"digits": {"replicas": 65}}, "digits.replicas", "65", "Serving pods"),
    ({"digits": None}, "digits", "None", "example"),
]


@each_row(("raw", "key", "value", "fix"), REFUSED, ids=[f"{r[1]}={r[2]}" for r in REFUSED])
def test_a_wrong_setting_is_refused_with_key_value_and_fix(raw, key, value, fix):
    with pytest.raises(SettingsError) as caught:
        parse_settings(raw)
    [problem] = caught.value.problems
    named, _, advice = problem.partition("Fix:")
    assert f"athanor:{key}" in named
    assert value in named
    assert fix in advice or fix in named
    assert advice.strip()


def test_all_wrong_keys_are_reported_at_once():
    with pytest.raises(SettingsError) as caught:
        parse_settings({"namespace": "A", "digits": {"workers": 0, "epochs": 0}, "unknown": 1})
    assert len(caught.value.problems) == 4
    assert all(f"\n  - {problem}" in str(caught.value) for problem in caught.value.problems)
    assert isinstance(caught.value, RefusalError)


def test_nothing_has_to_be_set():
    settings = parse_settings({})
    assert settings == Settings()
    assert settings.namespace == "athanor"
    assert settings.runs_on_own_local_cluster
    assert [queue.name for queue in settings.scheduling.queues] == ["training"]
    assert settings.images.trainer_variant == "cpu"
    assert (settings.digits.workers, settings.digits.replicas) == (2, 1)


@each_row(
    "raw",
    [
        {"namespace": "7"},
        {"namespace": "a" * 63},
        {"cluster": OWN, "storage": {"storage_class": "csi.fast.example", "access_mode": "ReadWriteOnce"}},
        {"digits": {"workers": "3", "batch_size": 30}},
        {"digits": {"replicas": 0}},
        {"scheduling": {"quota": {"resources": {"memory": 0, "pods": 500, "limits.memory": "2Ti"}}}},
        {"images": {"trainer": "registry.example:5000/team/trainer:v1.2"}},
        {"images": {"trainer": "trainer@sha256:" + 64 * "a"}},
        {"cluster": {"simulated_nodes": [{"instance_type": name} for name in INSTANCE_TYPES]}},
        {"scheduling": {"install": False, "queues": [{"name": "a", "capability": {"nvidia.com/gpu": "4"}}]}},
    ],
)
def test_what_can_work_is_accepted(raw):
    parse_settings(raw)


def test_yaml_numbers_are_quantities():
    """`cpus_per_worker: 2` is what anybody would write."""
    settings = parse_settings(
        {"digits": {"cpus_per_worker": 2}, "scheduling": {"queues": [{"name": "a", "capability": {"cpu": 0.5}}]}}
    )
    assert settings.digits.cpus_per_worker == "2"
    assert settings.scheduling.queues[0].capability == {"cpu": "0.5"}


def test_settings_cannot_be_changed_after_the_check():
    with pytest.raises(ValueError, match="frozen"):
        Settings().namespace = "other"


@given(st.one_of(st.from_regex(r"[0-9.]{1,5}(m|k|Ki|Gi)?", fullmatch=True), st.text(max_size=6), st.integers()))
def test_a_cpu_request_that_settings_accept_is_one_that_workloads_accept(value):
    try:
        accepted = parse_settings({"digits": {"cpus_per_worker": value}}).digits.cpus_per_worker
    except SettingsError:
        return
    Resources(cpu=accepted)
    assert accepted.isascii()
    assert float(accepted.removesuffix("m")) >= 0


FIELDS = list(every_field(Settings))


@each_row(("key", "words"), [(key, words) for key, _, words in FIELDS], ids=[key for key, *_ in FIELDS])
def test_every_key_is_described(key, words):
    assert words, key
    assert words.endswith("."), key


def test_the_settings_page_describes_every_key_in_the_words_of_the_code():
    page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            key, default, meaning = (cell.strip() for cell in line.strip("|").split("|", maxsplit=2))
            rows[key.strip("`")] = (default.strip("`"), meaning)
    described = [each for each in FIELDS if is_row(each[1])]
    assert set(rows) == {key for key, *_ in described}
    for key, field, words in described:
        assert rows[key][1] == " ".join(words.split())
        if field.is_required():
            assert rows[key][0] == "required"


def test_the_local_stack_file_is_accepted():
    parse_settings(stack_config("local"))
