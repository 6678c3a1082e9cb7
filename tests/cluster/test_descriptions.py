"""Descriptions of jobs and services: each is refused by us, or accepted by a real API server. No third outcome.

`--hypothesis-profile=thorough` draws 1,000 descriptions; a normal run draws 100.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.kubernetes.grammar import MAXIMUM_WORD_BYTES
from infra.namespaces import namespace_manifest
from infra.offers import NO_OFFERS, PlatformOffers
from infra.pools import pool_offers
from infra.settings.stack import Settings
from tests.fixtures.api_server import api_server, enforce
from tests.fixtures.descriptions import KINDS, NEAR_MISSES, PRIORITY_CLASSES, QUEUES, Described, described
from tests.fixtures.volcano_pods import helpers_of, pods_of, words_of
from tests.manifests.placement_cases import ACK, platform_of
from tests.recording_engine import Secret, record
from workloads.batch import BatchJob, BatchJobArgs
from workloads.git_source import GitSource
from workloads.placement import Toleration
from workloads.pods import ClaimMount
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.manifests import Manifest
    from infra.platform import Platform
    from tests.fixtures.cluster_api import ApiCalls

_KNOWN = PlatformOffers(
    pools=pool_offers(Settings.model_validate(ACK)),
    pod_networkings=("storage",),
    queues=QUEUES,
    priority_classes=PRIORITY_CLASSES,
    topology=True,
    clean_up=True,
)
OFFERS = {
    "team": replace(_KNOWN, pod_security="restricted"),
    "team-with-rdma": replace(_KNOWN, pod_security="privileged"),
    "team-elsewhere": NO_OFFERS,
}
"""What platforms tell of themselves, by their namespaces."""
_REFUSED = 400


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiCalls]:
    """An API server with the namespaces of the platforms, and their admission policies in force."""
    with api_server(tmp_path_factory.mktemp("api")) as api:
        for namespace, offers in OFFERS.items():
            api.request("POST", "api/v1/namespaces", namespace_manifest(namespace, offers.pod_security))
            enforce(api, namespace, offers.queues, offers.priority_classes)
        yield api


SPOILT: dict[str, Callable[[Manifest], object]] = {
    "a mount": lambda pod: pod["containers"][0]["volumeMounts"].append({"name": "tmp", "mountPath": "/data/data"}),
    "a node label": lambda pod: pod.update(nodeSelector={"disk": "a b"}),
    "a toleration": lambda pod: pod.update(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoRun"}]),
    "a claim": lambda pod: pod["volumes"].append({"name": "x", "persistentVolumeClaim": {"claimName": ""}}),
    "an image": lambda pod: pod["containers"][0].update(image=" trainer:1"),
    "a variable": lambda pod: pod["containers"][0]["env"].append({"name": "A", "value": 1}),
    "a count": lambda pod: pod.update(activeDeadlineSeconds=1.5),
    "a quantity": lambda pod: pod["containers"][0]["resources"]["requests"].update(cpu="-1"),
    "a host's network": lambda pod: pod.update(hostNetwork=True),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_the_api_server_would_refuse_what_we_refuse(api: ApiCalls, spoil: Callable[[Manifest], object]) -> None:
    """Else the test below would pass whatever we accept."""
    args = BatchJobArgs(command=("true",))
    job = record(lambda: BatchJob("data", _platform("team"), args), preview=False).one("data", "Job").inputs
    [pod] = pods_of(job)
    _dry_run(api, pod)
    spoil(pod["spec"])
    with pytest.raises(AssertionError, match="Pod: "):
        _dry_run(api, pod)


# One text of each kind that the API server checks, everything else of the job being plain.
WITH_TEXT: dict[str, Callable[[str], dict[str, Any]]] = {
    "a label's key": lambda text: {"labels": {text: "x"}},
    "a label's value": lambda text: {"labels": {"team": text}},
    "a node label's key": lambda text: {"node_labels": {text: "x"}},
    "a node label's value": lambda text: {"node_labels": {"disk": text}},
    "a toleration's key": lambda text: {"tolerations": (Toleration(key=text),)},
    "a toleration's value": lambda text: {"tolerations": (Toleration(key="a", value=text),)},
    "a variable's name": lambda text: {"env": {text: "x"}},
    "a claim": lambda text: {"volumes": (ClaimMount(claim=text, path="/scratch"),)},
    "a path": lambda text: {"volumes": (ClaimMount(claim="a", path=text),)},
    "an image": lambda text: {"image": text},
    "a directory": lambda text: {"working_directory": text},
    "memory": lambda text: {"resources": Resources(memory=text)},
    "cpu": lambda text: {"resources": Resources(cpu=text)},
    "a git secret": lambda text: {"source": GitSource(repository="https://git.example/a", branch="a", secret=text)},
}


@pytest.mark.parametrize("with_text", WITH_TEXT.values(), ids=WITH_TEXT.keys())
def test_of_texts_that_are_nearly_right_we_accept_what_the_api_server_accepts(
    api: ApiCalls, with_text: Callable[[str], dict[str, Any]]
) -> None:
    """Descriptions drawn at random have one of these in a place where nothing else is refused too rarely."""
    accepted = [args for text in NEAR_MISSES if (args := _made(with_text, text))]
    for args in accepted:
        recording = record(lambda args=args: BatchJob("data", _platform("team-elsewhere"), args), preview=False)
        for each in recording.objects():
            if each.kind:
                _check(api, each.inputs)
    assert len(accepted) < len(NEAR_MISSES)


def _made(with_text: Callable[[str], dict[str, Any]], text: str) -> BatchJobArgs | None:
    try:
        return BatchJobArgs(command=("true",), **with_text(text))
    except RefusalError:
        return None


def test_what_we_accept_the_api_server_accepts(api: ApiCalls) -> None:
    refusals: list[RefusalError] = []
    accepted: Counter[str] = Counter()

    @given(described(), st.sampled_from(sorted(OFFERS)))
    def judge(description: Described, namespace: str) -> None:
        try:
            recording = record(lambda: description.declare(_platform(namespace)), preview=False)
        except RefusalError as refusal:
            refusals.append(refusal)
            return
        for each in recording.objects():
            if each.kind:
                _check(api, each.inputs)
        accepted[description.component.__name__] += 1

    judge()
    assert all(refusal.field and refusal.fix for refusal in refusals)
    # Without enough of both, the test would prove nothing.
    assert len(accepted) > len(KINDS) // 2, accepted
    assert len({refusal.field for refusal in refusals}) > len(KINDS)


def _platform(namespace: str) -> Platform:
    return replace(platform_of(ACK), namespace=namespace, queue=QUEUES[0], offers=OFFERS[namespace])


def _check(api: ApiCalls, inputs: Manifest) -> None:
    # The code from a folder is a secret of the stack.
    manifest = {name: value.value if isinstance(value, Secret) else value for name, value in inputs.items()}
    _dry_run(api, manifest)
    if manifest["kind"] == "Job":
        for each in (*helpers_of(manifest), *pods_of(manifest)):
            _dry_run(api, each)
        longest = max(words_of(manifest), key=len)
        assert len(longest.encode()) <= MAXIMUM_WORD_BYTES, longest[:100]
    if manifest["kind"] == "Deployment":
        template = manifest["spec"]["template"]
        metadata = {**template["metadata"], "name": "pod", "namespace": manifest["metadata"]["namespace"]}
        _dry_run(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})


def _dry_run(api: ApiCalls, manifest: Manifest) -> None:
    version, kind = manifest["apiVersion"], manifest["kind"]
    group = f"apis/{version}" if "/" in version else f"api/{version}"
    plural = f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s"
    path = f"{group}/namespaces/{manifest['metadata']['namespace']}/{plural}"
    status, answer = api.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
    assert status < _REFUSED, f"{kind}: {answer}"
