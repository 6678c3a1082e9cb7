"""State in a bucket, as docs/operate.md says it: the real engine with clouds, and a server with S3's interface."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.engine_project import STACK, EngineProject
from tests.fixtures.s3_server import S3Bucket, s3_bucket
from tests.waiting import wait_until
from tools.paths import paths
from tools.process import CommandError
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import os
from pathlib import Path
import pulumi

if "GATE" in os.environ:
    # Until a test, which opens it to see that this runs, closes it.
    Path(os.environ["GATE"]).read_text()
pulumi.Stash("kept", input=os.environ["WORD"])
pulumi.export("word", os.environ["WORD"])
"""
STACKS, LOCKS = ".pulumi/stacks/", ".pulumi/locks/"
LOCKED = "the stack is currently locked by 1 lock"


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Bucket]:
    with s3_bucket() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def cache_with_clouds() -> Path:
    """A cache of tools of its own: one engine with clouds in the common one would be used by all tests from then on."""
    own, common = paths().cache / "tests" / "state-in-s3", paths().cache
    for shared in ("go/mod", "go/build", "tools/pulumi"):
        (own / shared).parent.mkdir(parents=True, exist_ok=True)
        (common / shared).mkdir(parents=True, exist_ok=True)  # `make up` may have deleted Go's
        if not (own / shared).is_symlink():
            (own / shared).symlink_to(common / shared)
    return own


@pytest.fixture
def client(bucket: S3Bucket, cache_with_clouds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineProject:
    """A project with a stack in the bucket, in which nothing is declared yet."""
    ensure(["pulumi"])
    monkeypatch.setenv("ATHANOR_CACHE", str(cache_with_clouds))
    monkeypatch.setenv("PULUMI_BACKEND_URL", bucket.backend_url)
    variables = {
        **bucket.variables(),
        "PULUMI_BACKEND_URL": bucket.backend_url,
        "PULUMI_HOME": str(tmp_path / "pulumi-home"),
        "WORD": "first",
    }
    # What asks for state in a bucket gets the engine that has a client for it.
    return EngineProject.create(tmp_path / "client", PROGRAM, None, variables, name=tmp_path.name.replace("_", "-"))


def elsewhere(project: EngineProject, folder: Path) -> EngineProject:
    """Return the project as a colleague has it: nothing is shared but the bucket."""
    shutil.copytree(project.folder, folder)
    own = {"PULUMI_HOME": str(folder / "pulumi-home"), "PULUMI_STACK": STACK}
    return replace(project, folder=folder, variables={**project.variables, **own})


@contextmanager
def update_in_progress(project: EngineProject) -> Iterator[subprocess.Popen[str]]:
    """Run `pulumi up` whose program has begun; it goes on at the end of the block, unless it was killed."""
    gate = project.folder / "gate"
    os.mkfifo(gate)
    command = [str(project.engine), "up", "--yes", "--skip-preview", "--non-interactive"]
    environment = {**os.environ, **project.variables, "GATE": str(gate)}
    with subprocess.Popen(
        command, cwd=project.folder, env=environment, text=True, start_new_session=True, stdout=subprocess.PIPE
    ) as process:

        def opened() -> int | None:
            assert process.poll() is None, process.stdout and process.stdout.read()
            try:
                return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody reads it yet
                    raise
                return None

        descriptor = wait_until(opened, "the program to begin")
        try:
            yield process
        finally:
            os.close(descriptor)
            gate.unlink()
            process.communicate()


def word(project: EngineProject) -> str:
    return json.loads(project.run("stack", "output", "--json"))["word"]


def test_a_second_client_reads_the_state_and_meets_the_lock(
    client: EngineProject, bucket: S3Bucket, tmp_path: Path
) -> None:
    second = elsewhere(client, tmp_path / "second")
    client.up()
    assert word(second) == "first"
    second.preview("--expect-no-changes")

    with update_in_progress(client.with_variables(WORD="second")) as first, pytest.raises(CommandError, match=LOCKED):
        second.with_variables(WORD="third").up()
    assert first.returncode == 0

    assert word(second) == "second"
    assert bucket.keys(LOCKS) == []
    second.run("destroy", "--yes", "--skip-preview")
    second.run("stack", "rm", STACK, "--yes")
    assert [key for key in bucket.keys(STACKS) if key.endswith(".json")] == []


def test_the_lock_of_a_killed_update_is_removed_by_cancel(client: EngineProject, bucket: S3Bucket) -> None:
    with update_in_progress(client) as killed:
        os.killpg(killed.pid, signal.SIGKILL)
    assert len(bucket.keys(LOCKS)) == 1
    with pytest.raises(CommandError, match=LOCKED):
        client.up()

    client.run("cancel", "--yes")

    client.up()
    assert word(client) == "first"


def test_a_wrong_key_is_refused(client: EngineProject) -> None:
    with pytest.raises(CommandError, match="SignatureDoesNotMatch"):
        client.with_variables(AWS_SECRET_ACCESS_KEY="another").preview()
