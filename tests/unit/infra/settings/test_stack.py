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


def at(key: str, value: Any) -> dict[str, Any]:
    """Return settings with one value, at a key such as `digits.workers`."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def prices(**changes: Any) -> dict[str, Any]:
    return {"prices": {"as_of": "2026-11-01", "per_hour": {GPU_NODE: 7.1}, **changes}}


def nodes(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"cluster": {"simulated_nodes": [{"instance_type": GPU_NODE, **group} for group in groups]}}


def queues(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"scheduling": {"queues": [{"name": "a", **change} for change in changes]}}


def priorities(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"scheduling": {"priority_classes": [{"name": "a", "value": 1, **change} for change in changes]}}


def webhooks(*hooks: dict[str, Any]) -> dict[str, Any]:
    return {"monitoring": {"run_webhooks": list(hooks)}}


# the key, a value that is wrong and shown, words of the fix
WRONG_VALUES: list[tuple[str, Any, str]] = [
    *(("namespace", name, "at most 63") for name in ("Athanor", "", "a.b", "a\n", "mañana", "a" * 64)),
    ("namespace", "-a", "starting with a letter or digit"),
    ("namespace", 7, "Namespace for the workloads"),
    ("namespace", "kube-system", "belongs to Kubernetes"),
    ("namespace", "default", "such as athanor"),
    ("namespace", "volcano-system", "the platform's own components"),
    ("namespace", "ack-csi-fuse", "belongs to ACK"),
    ("leave_namespace", "A", "at most 63"),
    ("cluster", "kind", "Which Kubernetes cluster"),
    ("cluster.simulated_nodes", GPU_NODE, "Simulated GPU nodes"),
    ("storage.storage_class", "nas", "omit it"),
    ("storage.access_mode", "RWX", "'ReadWriteMany'"),
    ("storage.data_size_gib", 0, "GiB"),
    ("storage.data_size_gib", "5Gi", "GiB"),
    ("storage.output_size_gib", 65537, "less than or equal to 65536"),
    ("storage.output_size_gib", 1.5, "GiB"),
    ("scheduling.install", "maybe", "Set to false if"),
    ("scheduling.queues", "training", "Queues to create"),
    ("scheduling.quota.percent", 0, "greater than or equal to 1"),
    ("scheduling.quota.resources.pods", "many", "such as 500m, 2 or 4Gi"),
    ("scheduling.container_defaults.memory", "1 GB", "write a number of bytes, or a number with a unit, such as 4Gi"),
    ("scheduling.container_defaults.memory", 2, "with its unit: 2Gi"),
    ("scheduling.container_defaults.ephemeral_storage", "64", "with its unit: 64Gi"),
    ("monitoring.memory_limit", 4, "with its unit: 4Gi"),
    ("images.trainer_variant", "tpu", "'cpu' or 'gpu'"),
    ("images.trainer", "team/trainer", "a tag other than latest"),
    ("images.trainer", "team/trainer:latest", "a tag other than latest"),
    ("images.trainer", "", "a tag other than latest"),
    ("images.trainer", "here:5000/trainer", "@sha256:"),
    ("images.trainer", "trainer@sha256:12", "the digest"),
    ("digits", None, "example"),
    ("digits.enabled", "perhaps", "includes the example"),
    ("digits.workers", 0, "Training pods"),
    ("digits.workers", "two", "Training pods"),
    ("digits.workers", 65, "less than or equal to 64"),
    ("digits.gpus_per_worker", 1, "the local cluster's node has no GPU"),
    ("digits.cpus_per_worker", "4Gi", "500m"),
    ("digits.cpus_per_worker", "half", "500m"),
    ("digits.cpus_per_worker", True, "CPU request"),
    ("digits.width", 0, "first layer"),
    ("digits.width", 10, "a multiple of 4"),
    ("digits.epochs", 0, "Passes over"),
    ("digits.batch_size", 4097, "less than or equal to 4096"),
    ("digits.seed", -1, "Seed of"),
    ("digits.replicas", 65, "Serving pods"),
]

PER_HOUR = f"prices.per_hour.{GPU_NODE}"
NODE, QUEUE, PRIORITY = "cluster.simulated_nodes.0", "scheduling.queues.0", "scheduling.priority_classes.0"
QUOTA, INDEX, HERE = "scheduling.quota.resources", "package_index.url", ["10.64.3.7/32"]

# what is wrong, the key that is named, the value that is shown, words of the fix
REFUSED: list[tuple[dict[str, Any], str, str, str]] = [
    *((at(key, value), key, repr(value)[:40], words) for key, value, words in WRONG_VALUES),
    ({"namspace": "a"}, "namspace", "", "did you mean namespace"),
    ({"fpga": 1}, "fpga", "", "use one of admission, alicloud, clean_up, cluster, digits"),
    (webhooks({"secret": "s"}, {"secret": "s", "queue": "trainig"}), "", "'trainig'", "did you mean training?"),
    (
        webhooks({"secret": "s"}, {"secret": "t"}, {"secret": "s"}),
        "monitoring",
        "run_webhooks repeats the secret s of all jobs",
        "list it once",
    ),
    *(
        (at(QUOTA, {name: "1"}), QUOTA, name, words)
        for name, words in (
            ("nvidia.com/ gpu", "is not a valid resource name"),
            ("gpu s", "is not a valid resource name"),
            ("gpus", "is not a resource that quotas know"),
            ("limits.cpu", "write cpu, which counts requests"),
            ("limits.nvidia.com/gpu", "write nvidia.com/gpu, which counts requests"),
        )
    ),
    (at(QUOTA, {"requests.storage": 500}), QUOTA, "requests.storage = '500'", "with its unit, such as 64Gi"),
    *(
        (at("package_index", {"url": url, "addresses": HERE}), INDEX, value, words)
        for url, value, words in (
            ("https://me:secret@pypi.example/simple", "'https://…@pypi.example/simple'", "has credentials"),
            ("pypi.example/simple", "'pypi.example/simple'", "write https://HOST/PATH"),
            ("file:///wheels", "'file:///wheels'", "write https://HOST/PATH"),
            ("https://pypi.example:99999/simple", "", "write https://HOST/PATH"),
        )
    ),
    *(
        (at("package_index", {"url": "https://x/simple", "addresses": given}), "package_index.addresses", value, words)
        for given, value, words in (
            ([], "", "at least 1"),
            (["10.0.0.0/8"], "10.0.0.0/8", "write the hosts that serve it"),
            (["100.100.0.0/16"], "100.100.0.0/16", "contains the metadata of nodes on Alibaba Cloud"),
        )
    ),
    ({"prices": {"per_hour": {GPU_NODE: 7.1}}}, "prices.as_of", "", "Day on which the prices were read"),
    (prices(per_hour={}), "prices.per_hour", "", "Price of one hour by instance type"),
    (prices(per_hour={GPU_NODE[4:]: 7}), "prices.per_hour", GPU_NODE[4:], f"mean {GPU_NODE}"),
    *((prices(per_hour={GPU_NODE: price}), PER_HOUR, repr(price), "such as 7.1") for price in (-1, "7", True)),
    (prices(per_hour={GPU_NODE: float("nan")}), PER_HOUR, "nan", "at least 0"),
    (prices(currency="yuan"), "prices.currency", "'yuan'", "ISO 4217"),
    (prices(as_of="soon"), "prices.as_of", "'soon'", "Day on which"),
    ({"cluster": {"kubeconfig": "~/k"}}, "cluster", "'~/k'", "set cluster.context"),
    ({"cluster": {"context": "kind"}}, "cluster", "'kind'", "set cluster.kubeconfig"),
    ({"cluster": {**OWN, "contexts": "a"}}, "cluster.contexts", "", "did you mean context"),
    ({"cluster": {"simulated_nodes": [{}]}}, f"{NODE}.instance_type", "", "infra/instance_types"),
    (nodes({"instance_type": GPU_NODE[4:]}), f"{NODE}.instance_type", f"'{GPU_NODE[4:]}'", f"did you mean {GPU_NODE}"),
    (nodes({"count": 0}), f"{NODE}.count", "0", "How many"),
    (nodes({"count": 5001}), f"{NODE}.count", "5001", "less than or equal to 5000"),
    (nodes({"gpus": 8}), f"{NODE}.gpus", "", "use one of count, instance_type"),
    (nodes({}, {"count": 2}), "cluster", GPU_NODE, "one entry per type"),
    ({"cluster": OWN, "storage": {"storage_class": "NAS"}}, "storage.storage_class", "'NAS'", "at most 253"),
    ({"cluster": OWN, "storage": {"storage_class": "a..b"}}, "storage.storage_class", "'a..b'", "both ends"),
    (at("storage.size", 5), "storage.size", "", "use one of access_mode"),
    (at("scheduling.queues", []), "scheduling", "no queues", "name at least one"),
    (at("scheduling.queues", [{"weight": 1}]), f"{QUEUE}.name", "", "Name of the queue"),
    (queues({"name": "Prod"}), f"{QUEUE}.name", "'Prod'", "at most 63"),
    (queues({"name": "default"}), "scheduling", "'default'", "choose another name"),
    (queues({"name": "root"}), "scheduling", "'root'", "choose another name"),
    (queues({}, {}), "scheduling", "a, a", "its own name"),
    (queues({"weight": 0}), f"{QUEUE}.weight", "0", "Share of"),
    (queues({"wieght": 2}), f"{QUEUE}.wieght", "", "did you mean weight"),
    *(
        (queues({"capability": {"cpu": cpu}}), f"{QUEUE}.capability.cpu", repr(cpu), "such as 500m, 2 or 4Gi")
        for cpu in ("eight", "-1", "٣")
    ),
    (queues({"capability": ["cpu"]}), f"{QUEUE}.capability", "['cpu']", "Hard limit by resource name"),
    (
        queues({"capability": {"nvidia.com/g pu": "1"}}),
        f"{QUEUE}.capability",
        "nvidia.com/g pu",
        "is not a valid resource name",
    ),
    (
        queues({"capability": {"cpu": 8, "memory": 64}}),
        f"{QUEUE}.capability",
        "memory = '64'",
        "with its unit, such as 64Gi",
    ),
    (queues({"guaranteed_percent": 101}), f"{QUEUE}.guaranteed_percent", "101", "less than or equal to 100"),
    (queues({"maximum_percent": 0}), f"{QUEUE}.maximum_percent", "0", "greater than or equal to 1"),
    (queues({"guaranteed_percent": 50, "maximum_percent": 40}), QUEUE, "maximum_percent = 40", "lower the first"),
    (queues({"maximum_percent": 40, "capability": {"cpu": 8}}), QUEUE, "maximum_percent = 40", "omit one"),
    (queues({"guaranteed_percent": 4, "guarantee": {"cpu": 8}}), QUEUE, "guaranteed_percent = 4", "omit one"),
    (queues(*({"name": name, "guaranteed_percent": 60} for name in "ab")), "scheduling", "120: a 60, b 60", "lower"),
    (queues({"deserved": {"cpu": 8}}, {"name": "b"}), "scheduling", "not for b", "for every queue, or for none"),
    (priorities({}, {"value": 2}), "scheduling", "'a'", "a different name"),
    (priorities({"value": 1_000_000_001}), f"{PRIORITY}.value", "1000000001", "less than or equal to 1000000000"),
    (priorities({"value": True}), f"{PRIORITY}.value", "True", "write it in digits"),
    (priorities({"name": "team.a"}), f"{PRIORITY}.name", "'team.a'", "at most 63"),
    (
        at("monitoring.autoscaling", {"resource_metrics": True}),
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
    (at("digits.worker", 2), "digits.worker", "", "did you mean workers"),
    (at("digits.workers", 3), "digits", "batch_size = 32", "use 30"),
    (at("digits.workers", 64), "digits", "workers = 64", "use 64"),
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


@each_row(("key", "words"), [(key, words) for key, _, words in FIELDS])
def test_every_key_is_described(key, words):
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
