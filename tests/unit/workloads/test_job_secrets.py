"""Secrets of jobs: files in the pods, and a Secret of the job's own whose values stand nowhere else."""

from __future__ import annotations

import base64
import dataclasses
import json

import pulumi
import pytest

from infra.errors import RefusalError
from tests.recording_engine import Recording, Secret, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import manifest_of, plain_platform, pod
from workloads.batch import BatchJob, BatchJobArgs
from workloads.job_secrets import SecretFiles
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJobArgs

ARGS = BatchJobArgs(command=("python3", "get.py"))
FILES = SecretFiles(secret="gcs-key", path="/secrets/gcs")


def _recorded(secret: str, plain: str) -> Recording:
    def program() -> None:
        values = {"TOKEN": pulumi.Output.secret(secret), "PLAIN": plain}
        BatchJob("job", plain_platform(), dataclasses.replace(ARGS, secret_env=values))

    return record(program, preview=False)


def test_files_are_mounted_read_only_where_the_users_code_runs():
    args = PyTorchJobArgs(
        program=("train.py",), workers=2, minimum_workers=1, prepare=("./get",), secret_files=(FILES,)
    )
    manifest = manifest_of(args)
    worker = pod(manifest, "worker")
    volume = {"secretName": "gcs-key", "defaultMode": 0o440}
    assert {"name": "secret-0", "secret": volume} in worker["volumes"]
    mount = {"name": "secret-0", "mountPath": "/secrets/gcs", "readOnly": True}
    seen = {each["name"]: mount in each["volumeMounts"] for each in (*worker["initContainers"], *worker["containers"])}
    assert seen == {"prepare": True, "wait": False, "worker": True}
    assert "gcs-key" not in json.dumps(pod(manifest, "rendezvous"))


@each_row("path", ["/etc", "/data/output/keys", "/source"])
def test_files_hide_nothing_of_the_pod(path):
    with pytest.raises(RefusalError, match=r"secret_files.path = .* already exists in every pod"):
        SecretFiles(secret="gcs-key", path=path)


def test_two_volumes_at_one_path_are_refused():
    with pytest.raises(RefusalError, match=r"secret_files\.path = '/secrets/gcs'"):
        dataclasses.replace(ARGS, secret_files=(FILES, FILES))
    with pytest.raises(RefusalError, match=r"volumes\.path = '/secrets/gcs'"):
        dataclasses.replace(ARGS, secret_files=(FILES,), volumes=(ClaimMount(claim="a", path="/secrets/gcs"),))


def test_a_jobs_own_secret_has_the_values_and_nothing_else_does():
    recording = _recorded("t0ken", "pl4in")
    [secret] = recording.of_kind("Secret")
    data = secret.inputs["data"]
    assert isinstance(data, Secret)
    decoded = {name: base64.b64decode(value) for name, value in data.value.items()}
    assert decoded == {"TOKEN": b"t0ken", "PLAIN": b"pl4in"}
    assert secret.inputs["metadata"]["name"].startswith("secret.job.athanor-")
    [job] = recording.of_kind("Job")
    spec = job.inputs["spec"]["tasks"][0]["template"]["spec"]
    assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": secret.inputs["metadata"]["name"]}}]
    assert secret.urn in job.depends_on
    everything_else = str([each.inputs for each in recording.objects() if each is not secret])
    assert not [word for word in ("t0ken", "pl4in") if word in everything_else]


def test_other_values_are_the_same_job():
    names = {_recorded(value, value).of_kind("Job")[0].inputs["metadata"]["name"] for value in ("a", "b")}
    assert len(names) == 1


@each_row(
    ("values", "message"),
    [
        ({"TOKEN": 12345678}, r"secret_env\['TOKEN'\] = '…': must be a string"),
        ({"TOKEN": "12345678\0"}, r"secret_env\['TOKEN'\] = '…'"),
        ("12345678", r"secret_env = '…'"),
        ({"VC_TASK_INDEX": "12345678"}, "VC_TASK_INDEX"),
    ],
)
def test_a_refusal_does_not_repeat_a_value(values, message):
    with pytest.raises(RefusalError, match=message) as caught:
        dataclasses.replace(ARGS, secret_env=values)
    assert "12345678" not in str(caught.value)


def test_a_description_is_printed_without_its_values():
    assert "12345678" not in repr(dataclasses.replace(ARGS, secret_env={"TOKEN": "12345678"}))


def test_a_variable_is_secret_or_not():
    with pytest.raises(RefusalError, match="secret_env = 'TOKEN': is in env, too"):
        dataclasses.replace(ARGS, env={"TOKEN": "a"}, secret_env={"TOKEN": "b"})
