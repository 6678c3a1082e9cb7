"""No image of the stack is pulled from outside the registry of the settings, no matter which code builds the pod."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra import images
from infra.build import enforce_image_policy
from infra.errors import RefusalError
from infra.images import needed_images, platform_serving_image, platform_tensorflow_image, platform_trainer_image
from infra.manifests import resource, resource_from_output
from infra.registry import ImageReference, images_of, pod_specs
from infra.settings.images import ImageSettings
from infra.settings.parse import parse_settings
from tests.fixtures.recorded_stack import TRAINER_TAG
from tests.recording_engine import UNKNOWN, record, scalars
from tests.tables import each_row
from tests.unit.infra.alicloud.node_pool_program import FIXED_SYSTEM

REGISTRY = "registry-vpc.cn-hangzhou.aliyuncs.com/team"
EVERYTHING = {
    "images": {"registry": REGISTRY, "pull_secrets": ["team-registry"]},
    "digits": {"workers": 4, "replicas": 4},
    "cluster": {"simulated_nodes": [{"instance_type": "ecs.gn7i-c8g1.2xlarge"}]},
    "gpu": {"device_plugin": True, "dcgm_exporter": True, "sharing": {"mode": "mps", "replicas": 2}},
    "monitoring": {"autoscaling": {"enabled": True}},
    "gateway": {"enabled": True},
}
PUBLIC = ("docker.io", "index.docker.io", "nvcr.io", "quay.io", "ghcr.io", "registry.k8s.io", "localhost/")


def _images(recording):
    of_pods = [
        image
        for registration in recording.objects()
        if registration.kind != "CustomResourceDefinition"
        for image in images_of(registration.inputs)
    ]
    proxies = [_proxies(each.inputs) for each in recording.of_kind("EnvoyProxy")]
    return [*of_pods, *(each["container"]["image"] for each in proxies)]


def _proxies(inputs):
    """The Deployment that Envoy Gateway makes."""
    return inputs["spec"]["provider"]["kubernetes"]["envoyDeployment"]


def _pods(recording):
    return [pod for registration in recording.objects() for pod in pod_specs(registration.inputs)]


@pytest.fixture(params=[True, False], ids=["preview", "update"])
def mirrored(request, record_stack):
    return record_stack(EVERYTHING, preview=request.param)


def test_no_image_of_the_whole_stack_is_outside_the_registry(mirrored):
    all_images = _images(mirrored)
    assert len(all_images) == 28
    assert [image for image in all_images if not image.startswith(REGISTRY + "/")] == []


def test_no_other_field_names_a_public_registry(mirrored):
    """An argument, a variable or a file may name an image, too; no policy would rewrite it."""
    texts = [
        (registration.urn, path, value)
        for registration in mirrored.resources.values()
        if registration.kind != "CustomResourceDefinition"
        for path, value in scalars(registration.inputs)
        if isinstance(value, str) and value.startswith(PUBLIC)
    ]
    assert texts == []


def test_every_pod_has_the_pull_secret(mirrored):
    assert len(_pods(mirrored)) == 19
    [proxies] = mirrored.of_kind("EnvoyProxy")
    pods = [*_pods(mirrored), _proxies(proxies.inputs)["pod"]]
    assert all(pod["imagePullSecrets"] == [{"name": "team-registry"}] for pod in pods)


def test_the_handle_and_the_contract_name_the_mirrored_trainer(mirrored):
    """Else the job's name, a hash of its content, would not change with the registry."""
    assert mirrored.exports["trainer_image"] == f"{REGISTRY}/athanor/trainer:{TRAINER_TAG}"
    assert mirrored.exports["serving_image"] == f"{REGISTRY}/athanor/serving:{TRAINER_TAG}"


def test_all_deployed_images_are_listed_for_filling_the_mirror(record_stack, monkeypatch):
    monkeypatch.setattr(images, "trainer_content_tag", lambda *_: TRAINER_TAG)
    needed = needed_images(ImageSettings(registry=REGISTRY))
    assert set(_images(record_stack(EVERYTHING))) == set(needed.values())
    assert set(_images(record_stack({**EVERYTHING, "images": {}}))) == set(needed)
    assert len(set(needed.values())) == len(needed), "two images share one place in the mirror"


def test_the_image_of_tensorflow_jobs_is_listed_for_stacks_with_such_jobs(monkeypatch):
    monkeypatch.setattr(images, "trainer_content_tag", lambda *_: TRAINER_TAG)
    settings = ImageSettings(registry=REGISTRY)
    (added,) = needed_images(settings, tensorflow=True).items() - needed_images(settings).items()
    name = f"athanor/trainer-tensorflow:{TRAINER_TAG}"
    assert added == (f"localhost/{name}", f"{REGISTRY}/{name}")


def test_every_image_constant_is_listed():
    constants = {value for name, value in vars(images).items() if name.endswith("_IMAGE")}
    of_the_local_cluster = {images.PAUSE_IMAGE, images.COREDNS_IMAGE}
    assert constants - of_the_local_cluster == {*images.PLATFORM_IMAGES, images.TRITON_IMAGE}


def test_images_that_few_stacks_need_are_listed_where_they_are_asked_for():
    settings = ImageSettings(registry=REGISTRY)
    assert images.TRITON_IMAGE not in needed_images(settings)
    assert needed_images(settings, triton=True)[images.TRITON_IMAGE].startswith(f"{REGISTRY}/nvidia/tritonserver:")


def test_without_the_setting_nothing_changes(record_stack):
    plain = record_stack()
    hosts = {ImageReference.parse(image).host for image in _images(plain)}
    assert hosts == {"docker.io", "localhost", "quay.io", "registry.k8s.io"}
    assert all("imagePullSecrets" not in pod for pod in _pods(plain))


def test_only_images_and_pull_secrets_differ(record_stack):
    plain, mirrored = record_stack(), record_stack({"images": EVERYTHING["images"]})
    assert set(plain.resources) == set(mirrored.resources)
    for urn, before in plain.resources.items():
        after = mirrored.resources[urn]
        assert (before.depends_on, before.parent, before.provider) == (after.depends_on, after.parent, after.provider)
        changed = {path for path, _ in set(scalars(before.inputs)) ^ set(scalars(after.inputs))}
        if before.name == "platform-contract":  # it names all images
            assert changed == {"metadata.annotations.athanor.dev/outputs"}
        elif before.kind == "Job":  # its name is a hash of its content
            assert "metadata.name" in changed
        else:
            assert all(path.endswith((".image", "imagePullSecrets[0].name")) for path in changed), urn


def _declared(build, settings=None, *, preview=False):
    def program():
        enforce_image_policy(settings or ImageSettings(registry=REGISTRY))
        build()

    return record(program, preview=preview)


PLAIN = {"containers": [{"name": "a", "image": "nvcr.io/a:1"}]}


def _pod(spec=PLAIN):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@each_row(
    "spec",
    [
        lambda _: PLAIN,
        lambda output: output(PLAIN),
        lambda output: {"containers": output(PLAIN["containers"])},
        lambda output: {"containers": [{"name": "a", "image": output("nvcr.io/a:1")}]},
    ],
    ids=["plain", "output spec", "output list", "output image"],
)
def test_images_inside_outputs_move_too(spec):
    def build():
        resource("p", _pod(spec(pulumi.Output.from_input)), pulumi.ResourceOptions())

    assert list(images_of(_declared(build).one("p").inputs)) == [f"{REGISTRY}/a:1"]


def test_a_whole_manifest_that_is_an_output_moves_too():
    def build():
        resource_from_output("p", ("v1", "Pod"), pulumi.Output.from_input(_pod()), pulumi.ResourceOptions())

    assert list(images_of(_declared(build).one("p").inputs)) == [f"{REGISTRY}/a:1"]


def test_an_unknown_value_leaves_the_rest_of_the_manifest_known():
    """A preview that shows a whole pod as unknown hides what changes."""

    def build():
        first = kubernetes.core.v1.Namespace("first")
        resource("p", _pod({"nodeName": first.id, **PLAIN}), pulumi.ResourceOptions())

    spec = _declared(build, preview=True).one("p").inputs["spec"]
    assert spec == {"nodeName": UNKNOWN, "containers": [{"name": "a", "image": f"{REGISTRY}/a:1"}]}


@each_row("declare", [
    lambda: kubernetes.helm.v3.Release("chart", chart="plugin"),
    lambda: kubernetes.helm.v4.Chart("chart", chart="plugin"),
    lambda: kubernetes.yaml.v2.ConfigGroup("chart", yaml="kind: Pod"),
    lambda: kubernetes.kustomize.v2.Directory("chart", directory="here"),
])  # fmt: skip
def test_what_renders_its_pods_elsewhere_is_refused(declare):
    with pytest.raises(RefusalError, match=r"through infra\.manifests\.resource"):
        _declared(declare)


def test_the_sdks_own_classes_are_refused():
    def build():
        container = kubernetes.core.v1.ContainerArgs(name="a", image="nvcr.io/a:1")
        kubernetes.core.v1.Pod("p", spec=kubernetes.core.v1.PodSpecArgs(containers=[container]))

    with pytest.raises(RefusalError, match="write it as a plain dict"):
        _declared(build)


def test_pull_secrets_alone_leave_the_images():
    settings = ImageSettings(pull_secrets=("one",))
    recording = _declared(lambda: resource("p", _pod(), pulumi.ResourceOptions()), settings)
    assert recording.one("p").inputs["spec"] == {**PLAIN, "imagePullSecrets": [{"name": "one"}]}


ON_ALICLOUD = {"alicloud": {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [FIXED_SYSTEM]}}


def test_nodes_in_the_cloud_need_a_place_to_pull_the_trainer_from():
    with pytest.raises(RefusalError, match=r"images\.registry"):
        platform_trainer_image(parse_settings(ON_ALICLOUD))


TRAINER, TENSORFLOW = f"athanor/trainer:{TRAINER_TAG}", f"athanor/trainer-tensorflow:{TRAINER_TAG}"
OWN = "quay.io/team/own:1"


@pytest.mark.parametrize(
    ("image_of", "stack", "given", "image"),
    [
        (platform_trainer_image, ON_ALICLOUD, {"registry": REGISTRY}, f"{REGISTRY}/{TRAINER}"),
        (platform_trainer_image, ON_ALICLOUD, {"registry": REGISTRY, "flatten": True},
         f"{REGISTRY}/{TRAINER.replace('/', '-')}"),
        (platform_trainer_image, ON_ALICLOUD, {"trainer": OWN}, OWN),
        (platform_trainer_image, ON_ALICLOUD, {"trainer": OWN, "registry": REGISTRY}, f"{REGISTRY}/team/own:1"),
        # that of services follows the trainer's
        (platform_serving_image, ON_ALICLOUD, {"registry": REGISTRY}, f"{REGISTRY}/athanor/serving:{TRAINER_TAG}"),
        (platform_serving_image, ON_ALICLOUD, {"trainer": OWN}, OWN),
        (platform_serving_image, ON_ALICLOUD, {"trainer": "quay.io/team/trainer:1", "serving": OWN}, OWN),
        (platform_serving_image, ON_ALICLOUD, {"serving": OWN, "registry": REGISTRY}, f"{REGISTRY}/team/own:1"),
        # one of TensorFlow that no node could pull is none, and refuses nothing: most stacks have no such job
        (platform_tensorflow_image, ON_ALICLOUD, {"trainer": OWN}, ""),
        (platform_tensorflow_image, ON_ALICLOUD, {"registry": REGISTRY}, f"{REGISTRY}/{TENSORFLOW}"),
        (platform_tensorflow_image, ON_ALICLOUD, {"tensorflow": OWN, "registry": REGISTRY}, f"{REGISTRY}/team/own:1"),
        (platform_tensorflow_image, {}, {}, f"localhost/{TENSORFLOW}"),
    ],
)  # fmt: skip
def test_an_image_comes_from_the_registry_or_from_where_it_was_pushed(monkeypatch, image_of, stack, given, image):
    monkeypatch.setattr(images, "trainer_content_tag", lambda *_: TRAINER_TAG)
    assert image_of(parse_settings({**stack, "images": given})) == image


@each_row(
    ("raw", "key", "fix"),
    [
        ({"registry": "https://reg.example"}, "images.registry", "write reg.example"),
        ({"flatten": True}, "images", "set images.registry"),
        ({"acr_instance_id": "cri-abc"}, "images", "images.credential_helper"),
        ({"credential_namespaces": ["a"]}, "images", "images.credential_helper"),
        ({"credential_helper": True, "acr_instance_id": "acr"}, "images.acr_instance_id", "Existing"),
        ({"pull_secrets": ["Team"]}, "images.pull_secrets", "DNS"),
    ],
)
def test_wrong_image_settings_are_refused(raw, key, fix):
    with pytest.raises(RefusalError) as caught:
        parse_settings({"images": raw})
    assert f"athanor:{key}" in str(caught.value)
    assert fix in str(caught.value)
