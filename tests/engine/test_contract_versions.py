"""The contract between releases: each one's programs on a stack of the other, with both releases' own code.

The released code is that of the commit which last wrote docs/contract-released.schema.json, from the history.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.fixtures.engine_project import EngineProject
from tools.paths import REPOSITORY
from tools.upkeep.contract_schema import RELEASED

if TYPE_CHECKING:
    from pathlib import Path

OWNER = """
import pulumi
from infra.config import load_settings
from infra.outputs import FIELD_NAMES
from infra.platform import Platform
from infra.pools import platform_offers

settings = load_settings()
values = {name: name.replace("_", "-") for name in FIELD_NAMES}
values |= {"queue": settings.scheduling.queues[0].name, "offers": platform_offers(settings)}
platform = Platform(provider=None, **values)
for name, value in platform.outputs().items():
    pulumi.export(name, value)
"""
CONSUMER = """
import pulumi_kubernetes as kubernetes
from athanor import (
    BatchJob, BatchJobArgs, MPIJob, MPIJobArgs, Platform, PyTorchJob, PyTorchJobArgs, Resources, TensorFlowJob,
    TensorFlowJobArgs, TorchScriptService, TorchScriptServiceArgs,
)

cluster = kubernetes.Provider("cluster", render_yaml_to_directory="rendered")
platform = Platform.from_stack("organization/athanor/test", cluster)
gpu = Resources(cpu="1", gpus=1)
PyTorchJob("torch", platform, PyTorchJobArgs(program=("train.py",), workers=2, pool="a10", resources=gpu))
MPIJob("mpi", platform, MPIJobArgs(program=("train",), workers=2, slots_per_worker=1))
TensorFlowJob("tensorflow", platform, TensorFlowJobArgs(program=("train",), workers=2))
BatchJob("batch", platform, BatchJobArgs(command=("prepare",)))
TorchScriptService("digits", platform, TorchScriptServiceArgs(model="digits"))
"""
REFUSED = """
import pulumi_kubernetes as kubernetes
from athanor import BatchJob, BatchJobArgs, Platform

cluster = kubernetes.Provider("cluster", render_yaml_to_directory="rendered")
platform = Platform.from_stack("organization/athanor/test", cluster)
BatchJob("batch", platform, BatchJobArgs(command=("prepare",), pool="no-such-pool"))
"""


def git(*words: str | Path) -> bytes:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the history of the repository: {done.stderr.decode().strip()}")
    return done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with the code of the last released contract."""
    if git("rev-parse", "--is-shallow-repository").strip() == b"true":
        pytest.skip("needs the history of the repository, which a shallow clone lacks: git fetch --unshallow")
    commit = git("log", "-1", "--format=%H", "--", RELEASED).decode().strip()
    if not commit:
        pytest.skip(f"no commit has {RELEASED.name} yet")
    tree = tmp_path_factory.mktemp("released")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        archive.extractall(tree, filter="data")
    return tree


@pytest.fixture(scope="module", params=["released program on this stack", "this program on released stack"])
def programs(request: pytest.FixtureRequest, released: Path, tmp_path_factory: pytest.TempPathFactory) -> EngineProject:
    """A consumer's project next to an owner's, which is up; each runs a release's own code."""
    ours = REPOSITORY, released
    owners, consumers = ours if request.param.startswith("released") else reversed(ours)
    folder = tmp_path_factory.mktemp("programs")
    owner = EngineProject.create(folder / "owner", OWNER, "kubernetes", {"PYTHONPATH": str(owners)}, name="athanor")
    shutil.copyfile(owners / "Pulumi.dev.yaml", owner.folder / "Pulumi.test.yaml")
    owner.up()
    shared = {"PYTHONPATH": str(consumers), "PULUMI_BACKEND_URL": owner.variables["PULUMI_BACKEND_URL"]}
    return EngineProject.create(folder / "consumer", CONSUMER, "kubernetes", shared, name="consumer")


def rendered(project: EngineProject) -> dict[tuple[str, str], Any]:
    """Return the manifests that the provider wrote, by kind and name without the hash of the content."""
    texts = [file.read_text(encoding="utf-8") for file in (project.folder / "rendered").rglob("*.yaml")]
    manifests = [manifest for text in texts for manifest in yaml.safe_load_all(text)]
    return {(each["kind"], each["metadata"]["name"].partition("-")[0]): each for each in manifests}


def test_every_workload_runs_where_and_as_the_stack_says(programs: EngineProject) -> None:
    programs.up()
    manifests = rendered(programs)
    jobs = {name: each for (kind, name), each in manifests.items() if kind == "Job"}
    assert jobs.keys() == {"torch", "mpi", "tensorflow", "batch"}
    images = dict.fromkeys(jobs, "trainer-image") | {"tensorflow": "tensorflow-image"}
    for name, job in jobs.items():
        assert (job["metadata"]["namespace"], job["spec"]["queue"]) == ("namespace", "training")
        pod = job["spec"]["tasks"][-1]["template"]["spec"]
        claims = {
            each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each
        }
        assert claims == {"data-claim", "output-claim"}
        assert pod["containers"][0]["image"] == images[name]
    assert jobs["torch"]["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"]["athanor.dev/pool"] == "a10"
    serving = manifests["Deployment", "digits"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert serving == "serving-image"


def test_what_the_stack_does_not_offer_is_refused(programs: EngineProject) -> None:
    programs.declare(REFUSED)
    with pytest.raises(Exception, match=r"pool = 'no-such-pool': .*a10"):
        programs.preview()
    programs.declare(CONSUMER)
