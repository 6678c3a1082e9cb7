"""Runs of a backend in a folder, read without the engine."""

from __future__ import annotations

import gzip
import json

import pytest

from athanor.runs.state_files import KnownRun, runs_in_folder


def checkpoint(outputs: dict | None, time: str = "2026-11-27T07:00:00.5+01:00", version: int = 3) -> bytes:
    stack = {"urn": "urn:pulumi:lr::athanor-runs::pulumi:pulumi:Stack::x", "type": "pulumi:pulumi:Stack"}
    other = {"type": "kubernetes:core/v1:ConfigMap", "outputs": {"job_name": "of another"}}
    resources = [{**stack, "outputs": outputs}, other]
    latest = None if outputs is None else {"manifest": {"time": time}, "resources": resources}
    return json.dumps({"version": version, "checkpoint": {"stack": "x", "latest": latest}}).encode()


@pytest.fixture
def stacks(tmp_path):
    folder = tmp_path / "a folder" / ".pulumi" / "stacks" / "athanor-runs"
    folder.mkdir(parents=True)
    (folder.parents[1] / "meta.yaml").write_text("version: 1\n", encoding="utf-8")
    return folder


def test_runs_and_what_they_recorded(stacks):
    (stacks / "lr.json").write_bytes(checkpoint({"job_name": "lr-1", "repetition": 2}))
    (stacks / "lr.json.attrs").touch()
    (stacks / "lr.json.bak").write_bytes(checkpoint({"job_name": "lr-0"}))
    (stacks / "packed.json.gz").write_bytes(gzip.compress(checkpoint({"job_name": "p-1"})))
    (stacks / "new.json").write_bytes(checkpoint(None))
    for name, content in (("cut", b"{"), ("later", checkpoint({}, version=4)), ("empty", b""), ("list", b"[]")):
        (stacks / f"{name}.json").write_bytes(content)
    (stacks / "cut.json.gz").write_bytes(b"\x1f\x8b")
    runs = runs_in_folder((stacks.parents[2]).as_uri() + "?metadata=skip", "athanor-runs")
    updated, unknown = "2026-11-27T07:00:00.5+01:00", KnownRun(updated="", outputs=None)
    assert runs == {
        "lr": KnownRun(updated=updated, outputs={"job_name": "lr-1", "repetition": "2"}),
        "packed": KnownRun(updated=updated, outputs={"job_name": "p-1"}),
        "new": KnownRun(updated="", outputs={}),
        **dict.fromkeys(("cut", "later", "empty", "list"), unknown),
    }


def test_other_backends_are_left_to_the_engine(stacks):
    url = stacks.parents[2].as_uri()
    assert runs_in_folder("https://api.pulumi.com", "athanor-runs") is None
    assert runs_in_folder("s3://bucket", "athanor-runs") is None
    assert runs_in_folder(url, "another") == {}
    (stacks.parents[1] / "meta.yaml").unlink()  # of an engine that did not keep stacks by project
    assert runs_in_folder(url, "athanor-runs") is None
