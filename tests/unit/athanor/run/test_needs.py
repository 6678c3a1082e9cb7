"""Secrets and claims that do not exist, for those who may list them and those who may not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from athanor.run.needs import check_needs
from infra.errors import RefusalError
from tests.tables import each_row
from workloads.batch import BatchJobArgs
from workloads.job_secrets import SecretFiles
from workloads.pods import ClaimMount

LISTED = {
    "Secret": "wandb   Opaque   1     5d\ngcs     Opaque   2     3h\n",
    "PersistentVolumeClaim": "imagenet   Bound   pv-1   1Ti   RWX   nas   5d\n",
}


def _cluster(listed=LISTED):
    asked = []

    def run(*words: str) -> str:
        asked.append(words)
        kind = words[1]
        if kind not in listed:
            raise RefusalError("kubectl", "get", f"cannot list {kind}", "ask")
        return listed[kind]

    return SimpleNamespace(namespace="team", run=run, asked=asked)


def _args(**own):
    return BatchJobArgs(command=("true",), **own)


def test_what_exists_is_accepted_and_nothing_is_asked_that_is_not_named():
    files, volume = SecretFiles(secret="gcs", path="/secrets/gcs"), ClaimMount(claim="imagenet", path="/imagenet")
    check_needs(_args(secrets=("wandb",), secret_files=(files,), volumes=(volume,)), _cluster())
    silent = _cluster()
    check_needs(_args(), silent)
    assert silent.asked == []


@each_row(
    ("own", "message"),
    [
        (
            {"secrets": ("wandb", "wanb")},
            (
                "--secret = 'wanb': namespace team has no Secret of that name."
                " Fix: create it, or name one that exists: gcs, wandb"
            ),
        ),
        (
            {"secret_files": (SecretFiles(secret="gc", path="/secrets/gc"),)},
            (
                "--secret = 'gc': namespace team has no Secret of that name."
                " Fix: create it, or name one that exists: gcs, wandb"
            ),
        ),
        (
            {"volumes": (ClaimMount(claim="coco", path="/coco"),)},
            (
                "--volume = 'coco': namespace team has no PersistentVolumeClaim of that name."
                " Fix: create it, or name one that exists: imagenet"
            ),
        ),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(own, message):
    with pytest.raises(RefusalError) as caught:
        check_needs(_args(**own), _cluster())
    assert str(caught.value) == message


def test_a_namespace_without_any_says_only_what_to_do():
    with pytest.raises(RefusalError, match=r"Fix: create it$"):
        check_needs(_args(secrets=("wandb",)), _cluster({"Secret": ""}))


def test_who_may_not_list_secrets_is_not_stopped_and_the_values_are_never_asked_for():
    cluster = _cluster({})
    check_needs(_args(secrets=("wandb",)), cluster)
    [words] = cluster.asked
    assert not any(word.startswith(("-o", "--output")) for word in words)
