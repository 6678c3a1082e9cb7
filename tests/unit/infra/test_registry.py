"""One setting moves every image to a mirror: references are taken apart as container runtimes do it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.build import with_image_policy
from infra.errors import RefusalError
from infra.registry import ImageReference, Mirror, check_registry, images_of, private_region, rewrite_image
from infra.settings.images import ImageSettings
from infra.settings.stack import Settings
from tests.tables import each_row
from tests.unit.infra.alicloud.node_pool_program import FIXED_SYSTEM

REGISTRY = "my-acr-registry-vpc.cn-hangzhou.cr.aliyuncs.com/mirror"
DIGEST = "@sha256:" + "0123456789abcdef" * 4

# reference, host, path, version
REFERENCES = [
    ("busybox", "docker.io", "library/busybox", ""),
    ("busybox:1.36", "docker.io", "library/busybox", ":1.36"),
    ("docker.io/busybox:1.36", "docker.io", "library/busybox", ":1.36"),
    ("index.docker.io/library/busybox:1.36", "docker.io", "library/busybox", ":1.36"),
    ("volcanosh/vc-scheduler:v1.14.1", "docker.io", "volcanosh/vc-scheduler", ":v1.14.1"),
    ("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-ubuntu22.04", "nvcr.io", "nvidia/k8s/dcgm-exporter",
     ":4.4.1-4.6.0-ubuntu22.04"),
    ("registry.k8s.io/pause:3.10", "registry.k8s.io", "pause", ":3.10"),
    ("localhost/athanor/trainer:0123456789abcdef", "localhost", "athanor/trainer", ":0123456789abcdef"),
    ("localhost:5000/trainer:1", "localhost:5000", "trainer", ":1"),
    ("registry.example:5000/team/app:1" + DIGEST, "registry.example:5000", "team/app", ":1" + DIGEST),
    ("quay.io/team/app" + DIGEST, "quay.io", "team/app", DIGEST),
    ("HOST/app:1", "HOST", "app", ":1"),
    ("a__b/c.d-e:UPPER_tag", "docker.io", "a__b/c.d-e", ":UPPER_tag"),
]  # fmt: skip


@each_row(("text", "host", "path", "version"), REFERENCES)
def test_a_reference_is_taken_apart(text, host, path, version):
    assert ImageReference.parse(text) == ImageReference(host=host, path=path, version=version)


@each_row(
    "text",
    ["", "/app", "Team/App:1", "app:", "app@sha256:12", "app:1:2", "https://docker.io/app", "docker.io/", "a b", "app/",
     "team//app:1", "-app:1", "quay.io/app:1\n"],
)  # fmt: skip
def test_what_is_not_a_reference_is_refused(text):
    with pytest.raises(RefusalError, match="is not a valid image reference") as refusal:
        ImageReference.parse(text)
    assert refusal.value.value == text


def test_a_path_that_no_runtime_takes_is_refused():
    longest = "a" * (255 - len("library/"))
    assert ImageReference.parse(f"{longest}:1").path == f"library/{longest}"
    assert ImageReference.parse("registry.example:5000/" + "a" * 255).path == "a" * 255
    for text in (f"{longest}a:1", "registry.example:5000/" + "a" * 256):
        with pytest.raises(
            RefusalError, match="its path has 256 characters, and container runtimes accept at most 255"
        ):
            ImageReference.parse(text)


@each_row(("text", "path", "version"), [(text, path, version) for text, _, path, version in REFERENCES])
def test_the_mirror_holds_an_image_under_its_path(text, path, version):
    assert rewrite_image(text, REGISTRY) == f"{REGISTRY}/{path}{version}"


def test_a_flat_mirror_holds_it_under_one_name():
    flat = Mirror(registry=REGISTRY, flatten=True)
    assert flat.rewrite("nvcr.io/nvidia/k8s/dcgm-exporter:4") == f"{REGISTRY}/nvidia-k8s-dcgm-exporter:4"
    assert flat.rewrite("localhost/athanor/trainer:1") == f"{REGISTRY}/athanor-trainer:1"


@each_row("path", ["mirror/team/app", "elsewhere/app", "app"])
def test_what_is_on_the_mirrors_host_stays(path):
    """A trainer image that was pushed outside the mirror's path must not be looked for below it."""
    reference = f"my-acr-registry-vpc.cn-hangzhou.cr.aliyuncs.com/{path}:1"
    assert rewrite_image(reference, REGISTRY) == reference


def test_another_port_is_another_registry():
    assert rewrite_image("here:5000/app:1", "here:5001/mirror") == "here:5001/mirror/app:1"


_NAME = st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,2}", fullmatch=True)
_HOSTS = st.sampled_from(["", "docker.io/", "nvcr.io/", "localhost/", "localhost:5000/", "10.0.0.1:443/", "REG/"])
_VERSIONS = st.sampled_from(["", ":1", ":v1.2_rc", DIGEST, ":1" + DIGEST])
_REGISTRIES = st.sampled_from(["reg.example", "reg.example:5000", "reg.example/a", "localhost:5000/a/b_c", REGISTRY])


@given(host=_HOSTS, path=st.lists(_NAME, min_size=1, max_size=3), version=_VERSIONS, registry=_REGISTRIES)
def test_rewriting_keeps_path_and_version_ends_on_the_mirror_and_is_idempotent(host, path, version, registry):
    # Without a host, a first part with a dot is one.
    original = f"{host or 'docker.io/'}{'/'.join(path)}{version}"
    moved = rewrite_image(original, registry)
    assert moved.startswith(registry.partition("/")[0] + "/")
    assert moved.endswith("/".join(path) + version)
    assert rewrite_image(moved, registry) == moved
    before, after = ImageReference.parse(original), ImageReference.parse(moved)
    assert after.version == before.version
    assert after.host == registry.partition("/")[0]


@each_row(
    "registry",
    ["registry-vpc.cn-hangzhou.aliyuncs.com/team", REGISTRY, "localhost:5000", "here:5000/a/b", "10.0.0.1:5000", "a.b"],
)
def test_a_registry_is_a_host_and_a_path(registry):
    assert check_registry(registry) == registry


@each_row(
    "registry",
    ["crpi-a1b2-vpc.cn-hangzhou.personal.cr.aliyuncs.com/team", "crpi-a1b2-vpc.cn-beijing.personal.cr.aliyuncs.com"],
)
def test_a_registry_that_nobody_can_pull_from_without_a_login_needs_one(registry):
    images = dict.fromkeys(("trainer", "serving", "tensorflow"), f"{registry}/app:1")
    for name, value in {"registry": registry, **images}.items():
        for more in ({}, {"credential_helper": True}):
            with pytest.raises(ValueError, match=r"only to pods that log in.* Fix: .*images\.pull_secrets"):
                ImageSettings(**{name: value}, **more)
        ImageSettings(**{name: value}, pull_secrets=["login"])


def test_a_personal_edition_gives_images_at_its_vpc_address_only():
    with pytest.raises(ValueError, match=r"Fix: write crpi-a1b2-vpc\.cn-beijing\.personal\.cr\.aliyuncs\.com"):
        ImageSettings(registry="crpi-a1b2.cn-beijing.personal.cr.aliyuncs.com/team", pull_secrets=["login"])


def test_the_credential_helper_knows_the_instance_and_stands_alone():
    """A pod that names a Secret gets none of its service account's, which is where the helper puts its own."""
    with pytest.raises(ValueError, match=r"trainer = .*is an Enterprise Edition.* Fix: .*images\.acr_instance_id"):
        ImageSettings(trainer=f"{REGISTRY}/trainer:1", credential_helper=True)
    helped = {"registry": REGISTRY, "credential_helper": True, "acr_instance_id": "cri-1"}
    ImageSettings(**helped)
    ImageSettings(registry="registry-vpc.cn-hangzhou.aliyuncs.com/team", credential_helper=True)
    with pytest.raises(ValueError, match=r"pull_secrets = \['login'\]: .* Fix: use one of the two"):
        ImageSettings(**helped, pull_secrets=["login"])


def test_a_private_address_is_one_of_the_clusters_own_region():
    assert private_region(REGISTRY) == "cn-hangzhou"
    for elsewhere in ("my-acr-registry.cn-beijing.cr.aliyuncs.com", "quay.io", "registry-vpc.cn-beijing.aliyuncs.com"):
        assert private_region(elsewhere) is None
    alicloud = {"region": "cn-beijing", "zones": ["cn-beijing-h"], "node_pools": [FIXED_SYSTEM]}
    with pytest.raises(ValueError, match=r"images\.registry = .*its own region, and the cluster is in cn-beijing"):
        Settings(alicloud=alicloud, images={"registry": REGISTRY})


@each_row(
    ("registry", "wrong", "fix"),
    [
        ("https://reg.example/team/", "scheme", "write reg.example/team"),
        ("HTTPS://reg.example", "scheme", "write reg.example"),
        ("reg.example/team/", "slash", "write reg.example/team"),
        ("reg.example/team:v1", "tag", "write reg.example/team"),
        ("reg.example/team" + DIGEST, "tag or digest", "write reg.example/team"),
        ("reg.example/Team", "uppercase", "write reg.example/team"),
        ("team", "no registry host", "registry.example/team"),
        ("team/mirror", "no registry host", "registry.example/team"),
        ("", "no registry host", "registry.example/team"),
        ("reg.example//team", "no registry host", "registry.example/team"),
        ("reg.example:port", "no registry host", "registry.example/team"),
        ("reg.example/team\n", "no registry host", "registry.example/team"),
    ],
)
def test_a_wrong_registry_is_refused_with_the_fix(registry, wrong, fix):
    with pytest.raises(ValueError, match=wrong) as caught:
        check_registry(registry)
    assert fix in str(caught.value).partition("Fix: ")[2]


POD = {
    "initContainers": [{"name": "init", "image": "busybox:1"}],
    "containers": [{"name": "main", "image": "nvcr.io/nvidia/app:2"}, {"name": "no-image"}],
    "ephemeralContainers": [{"name": "debug", "image": "quay.io/debug:3"}],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "model", "image": {"reference": "ghcr.io/team/model:4"}}],
}
IMAGES = ["busybox:1", "nvcr.io/nvidia/app:2", "quay.io/debug:3", "ghcr.io/team/model:4"]
NO_IMAGE = {"kind": "ConfigMap", "data": {"image": "busybox:1"}}
MANIFESTS = {
    "Pod": {"kind": "Pod", "spec": POD},
    "Deployment": {"kind": "Deployment", "spec": {"template": {"spec": POD}}},
    "CronJob": {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}},
    "Volcano Job": {"kind": "Job", "spec": {"tasks": [{"name": "worker", "template": {"spec": POD}}]}},
}


@each_row("kind", MANIFESTS)
def test_every_image_of_a_manifest_is_found(kind):
    assert list(images_of([MANIFESTS[kind], NO_IMAGE])) == IMAGES


@each_row("kind", MANIFESTS)
def test_every_image_of_a_manifest_moves_and_nothing_else_changes(kind):
    before = copy.deepcopy(MANIFESTS[kind])
    moved = with_image_policy(MANIFESTS[kind], Mirror(registry=REGISTRY).rewrite)
    assert list(images_of(moved)) == [rewrite_image(image, REGISTRY) for image in IMAGES]
    assert before == MANIFESTS[kind], "the builder's own manifest must stay as it is"
    assert with_image_policy(moved, lambda _: "gone") == with_image_policy(before, lambda _: "gone")


def test_every_pod_gets_the_pull_secrets_in_addition_to_its_own():
    own = {"kind": "Pod", "spec": {**POD, "imagePullSecrets": [{"name": "own"}, {"name": "team"}]}}
    changed = with_image_policy([own, MANIFESTS["Volcano Job"]], str, ["team", "mirror"])
    assert changed[0]["spec"]["imagePullSecrets"] == [{"name": "own"}, {"name": "team"}, {"name": "mirror"}]
    [task] = changed[1]["spec"]["tasks"]
    assert task["template"]["spec"]["imagePullSecrets"] == [{"name": "team"}, {"name": "mirror"}]


def test_what_cannot_be_looked_into_is_refused():
    with pytest.raises(RefusalError, match="hides its images"):
        with_image_policy({"spec": object()}, str)
