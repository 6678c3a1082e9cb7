"""Secrets that a user gives us never show in clear: neither in state nor in anything that is printed, sent or run.

A secret of its own is planted in each typed way in; then everything that the engine, its providers and the program left
or said is searched for all of them. The account is the API double, manifests are rendered by the Kubernetes provider.
"""

from __future__ import annotations

import base64
import secrets
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import yaml

from tests.api_double.double import ApiDouble
from tests.api_double.signatures import Credential
from tests.fixtures.engine_project import EngineProject
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS = {
    "alicloud": {
        "region": "cn-hangzhou",
        "zones": ["cn-hangzhou-i"],
        "node_pools": [
            {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2}
        ],
    }
}
PROGRAM = f"""
import os
from pathlib import Path

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from athanor import BatchJob, BatchJobArgs, GitSource, Platform
from infra.alicloud.provider import alicloud_provider
from infra.cluster import ExistingCluster
from infra.cluster_access import ExistingClusterArgs
from infra.settings.parse import parse_settings

provider = alicloud_provider(parse_settings({SETTINGS!r}).alicloud)
vpc = alicloud.vpc.Network("vpc", cidr_block="10.0.0.0/8", opts=pulumi.ResourceOptions(provider=provider))
ExistingCluster("cluster", ExistingClusterArgs(kubeconfig=Path(os.environ["THE_KUBECONFIG"]), context="ours"))
rendering = kubernetes.Provider("rendering", render_yaml_to_directory="rendered")
platform = Platform(
    provider=rendering, namespace="team", queue="research", data_claim="data", output_claim="output",
    trainer_image="registry.example/trainer:1",
)
source = GitSource(
    repository="https://git.example/team/code.git", commit="0" * 40, secret="git-credentials"
)
token = {{"TOKEN": pulumi.Config().require_secret("token")}}
BatchJob("job", platform, BatchJobArgs(command=("true",), source=source, secret_env=token))
pulumi.export("vpc", vpc.id)
pulumi.export("kubeconfig", pulumi.Output.secret(Path(os.environ["THE_KUBECONFIG"]).read_text()))
"""
LEAKS = """
import os, pulumi
pulumi.warn(os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"])
"""


@dataclass
class Planted:
    """Secrets by where they enter."""

    by_way: dict[str, str] = field(default_factory=dict[str, str])

    def plant(self, way: str) -> str:
        return self.by_way.setdefault(way, f"planted-{secrets.token_hex(12)}")

    def seen_in(self, text: str) -> list[str]:
        """Return the ways in whose secrets a text has, plain, quoted for a URL, or as base64."""
        return [way for way, value in self.by_way.items() if any(form in text for form in _forms(value))]


def _forms(value: str) -> set[str]:
    """Return how a secret can be written; base64 of what it is a part of depends on where it begins there."""
    shifted = [base64.b64encode(b" " * shift + value.encode()).decode() for shift in range(3)]
    return {value, quote(value, safe=""), *(text[4:].rstrip("=")[:-1] for text in shifted)}


def kubeconfig(planted: Planted) -> str:
    """Return one with a secret in each field that holds one."""
    user = {
        "token": planted.plant("kubeconfig token"),
        "client-key-data": base64.b64encode(planted.plant("kubeconfig client key").encode()).decode(),
        "client-certificate-data": base64.b64encode(b"a certificate").decode(),
    }
    other = {"password": planted.plant("password of another context"), "username": "somebody"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("ours", "theirs")],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "ours", "user": user}, {"name": "theirs", "user": other}],
    }
    return yaml.safe_dump(content)


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiDouble]:
    with ApiDouble(tmp_path_factory.mktemp("double"), settling_reads=0) as double:
        yield double


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


@pytest.fixture(scope="module")
def project(double: ApiDouble, planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> EngineProject:
    """A stack with a secret in every variable and file that a user has secrets in."""
    folder = tmp_path_factory.mktemp("secrets")
    credential = Credential(secret=planted.plant("key secret"), security_token=planted.plant("security token"))
    with double.account.lock:
        double.account.add_session("STS.planted", credential)
    (folder / "kubeconfig").write_text(kubeconfig(planted), encoding="utf-8")
    (folder / "temporary").mkdir()
    variables: Mapping[str, str] = {
        **double.environment(),
        "ALIBABA_CLOUD_ACCESS_KEY_ID": "STS.planted",
        "ALIBABA_CLOUD_ACCESS_KEY_SECRET": credential.secret,
        "ALIBABA_CLOUD_SECURITY_TOKEN": credential.security_token,
        "THE_KUBECONFIG": str(folder / "kubeconfig"),
        "PULUMI_CONFIG_PASSPHRASE": planted.plant("passphrase"),
        # The Kubernetes provider leaves the kubeconfig there; `make` gives it a folder that nobody else can read.
        "TMPDIR": str(folder / "temporary"),
    }
    project = EngineProject.create(folder / "project", PROGRAM, "kubernetes", variables)
    secret = planted.plant("secret configuration")
    project.run("config", "set", "--secret", "alicloud:secretKey", secret)
    project.run("config", "set", "--secret", "token", planted.plant("secret of a job"))
    return project


@contextmanager
def watched_arguments() -> Iterator[set[str]]:
    """Collect the command lines of all processes of this machine while the block runs."""
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:  # it has ended
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def files_below(folder: Path) -> str:
    """Return the content of every file: the state with its history and backups, settings, rendered manifests."""
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in folder.rglob("*") if file.is_file())


def everything_said(project: EngineProject, *words: str) -> str:
    """Run `pulumi <words>` and return its standard output and its standard error."""
    log = project.folder.parent / "said.log"
    log.unlink(missing_ok=True)
    run([project.engine, *words, "--non-interactive"], cwd=project.folder, env=project.variables, log=log)
    return log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def said(project: EngineProject) -> dict[str, str]:
    """Everything that the commands of a stack's life printed, and the arguments of every program that ran."""
    commands = {
        "preview": ("preview", "--diff"),
        "preview as JSON": ("preview", "--json"),
        "up": ("up", "--yes", "--skip-preview"),
        "outputs": ("stack", "output", "--json"),
        "state": ("stack", "export"),
        "settings": ("config", "--json"),
    }
    with watched_arguments() as arguments:
        texts = {name: everything_said(project, *words) for name, words in commands.items()}
    assert any("pulumi-resource-alicloud" in line for line in arguments)
    return {**texts, "arguments": "\n".join(arguments)}


def test_nothing_that_is_printed_or_run_shows_a_secret(said: dict[str, str], planted: Planted) -> None:
    assert {where: planted.seen_in(text) for where, text in said.items()} == {where: [] for where in said}


def test_nothing_that_is_written_holds_a_secret(said: dict[str, str], project: EngineProject, planted: Planted) -> None:
    assert said
    assert "secure:" in (project.folder / "Pulumi.test.yaml").read_text(encoding="utf-8")
    assert list((project.folder / "rendered").rglob("*.yaml"))
    # A Secret that is rendered instead of sent is a file with the values, which nothing else of the job has.
    for file in (project.folder / "rendered").rglob("*-secret-*.yaml"):
        assert planted.seen_in(file.read_text(encoding="utf-8")) == ["secret of a job"]
        file.unlink()
    assert planted.seen_in(files_below(project.folder)) == []


def test_the_secrets_were_used(said: dict[str, str], project: EngineProject, planted: Planted) -> None:
    assert '"vpc": "vpc-' in said["outputs"]
    assert "[secret]" in said["outputs"]
    decrypted = project.run("stack", "export", "--show-secrets")
    assert set(planted.seen_in(decrypted)) == {
        "kubeconfig token",
        "kubeconfig client key",
        "password of another context",
        "secret of a job",
    }
    assert planted.seen_in(project.run("config", "--json", "--show-secrets")) == [
        "secret configuration",
        "secret of a job",
    ]


def test_credentials_in_an_address_are_not_repeated(project: EngineProject, planted: Planted) -> None:
    password = planted.plant("password in an address")
    project.declare(PROGRAM.replace("https://git.example", f"https://user:{password}@git.example"))
    with pytest.raises(CommandError) as caught:
        project.preview()
    assert "contains credentials" in str(caught.value)
    assert planted.seen_in(str(caught.value) + caught.value.output) == []


def test_the_engine_tells_a_secret_from_words(project: EngineProject) -> None:
    # It knows words from lists that it reads only now: without them, the second one would look like a secret, too.
    with pytest.raises(CommandError, match="looks like a secret"):
        project.run("config", "set", "other-token", "Zx8pLq2vRt7yNb4wKd9sHf3g")
    project.run("config", "set", "other-token", "correcthorsebattery")
    project.run("config", "rm", "other-token")


def test_a_leak_would_be_seen(project: EngineProject, planted: Planted) -> None:
    project.declare(LEAKS)
    printed = project.preview()
    assert planted.seen_in(printed) == ["key secret"]
    assert planted.seen_in(base64.b64encode(printed.encode()).decode()) == ["key secret"]


@pytest.mark.parametrize("way", ["key secret", "kubeconfig client key"])
@pytest.mark.usefixtures("project")
def test_each_form_would_be_seen(planted: Planted, way: str) -> None:
    value = planted.by_way[way]
    for lead in ("", "x", "xy"):
        assert planted.seen_in(base64.b64encode(f"{lead}{value}: more".encode()).decode()) == [way]
