"""`.venv/bin/pulumi` and `.venv/bin/kubectl`: the real programs, set up, with every setting of the user's respected."""

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.api_double.double import ApiDouble
from tests.api_double.signatures import Credential
from tests.fixtures.cloud_identities import temporary_credentials
from tools.local_cluster import state
from tools.paths import REPOSITORY
from tools.process import CommandError, run
from tools.stacks import venv_commands


@pytest.fixture
def installed(monkeypatch, tmp_path, fake_program):
    """The commands, written into a folder of this test instead of the virtual environment."""
    folder = tmp_path / "bin with space"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(venv_commands.sys, "executable", str(folder / "python"))
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    fake_program.answer("", "done")
    venv_commands.install_commands(fake_program.path, fake_program.path)
    monkeypatch.setattr(venv_commands.sys, "executable", sys.executable)
    return folder


def _environment(**variables: str) -> list[str]:
    """`env` with only what is named, so that nothing of the machine's own shows through."""
    return ["env", "-i", "PATH=/usr/bin:/bin", *(f"{name}={value}" for name, value in variables.items())]


def test_both_are_programs_and_nothing_else_is_left_wherever_they_are_written(installed, fake_program, tmp_path):
    elsewhere = tmp_path / "home" / "bin"
    venv_commands.install_commands(fake_program.path, fake_program.path, elsewhere)
    for folder, names in ((installed, ["kubectl", "pulumi", "python"]), (elsewhere, ["kubectl", "pulumi"])):
        assert sorted(file.name for file in folder.iterdir()) == names
        assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o755 for name in ("kubectl", "pulumi"))


def test_words_reach_the_program_as_they_are(installed, fake_program):
    words = ["up", "--message", "two words", "$(id)", '"quoted"', ""]
    assert run([*_environment(HOME="/home/user"), installed / "pulumi", *words]) == "done"
    assert fake_program.calls[0]["words"] == words


def test_an_expired_temporary_key_is_reported_before_the_engine_starts(monkeypatch, fake_program, tmp_path):
    with ApiDouble(tmp_path / "double", settling_reads=0) as double:
        own = temporary_credentials(double, "STS.old", Credential("of a while", "for a while"))
        double.account.end_session("STS.old")
        venv_commands.install_commands(fake_program.path, fake_program.path, tmp_path / "bin")
        monkeypatch.chdir(REPOSITORY)
        variables = _environment(HOME="/home/user", **double.environment() | own)
        with pytest.raises(CommandError, match=r"'STS.old': this temporary key has expired"):
            run([*variables, tmp_path / "bin" / "pulumi", "up", "-s", "dev"])
        assert fake_program.calls == []


def test_where_nothing_can_check_a_temporary_key_the_engine_does(installed, fake_program):
    assert run([*_environment(ALIBABA_CLOUD_SECURITY_TOKEN="token"), installed / "pulumi", "up", "a b"]) == "done"
    assert fake_program.calls[0]["words"] == ["up", "a b"]


def test_state_passphrase_and_cluster_are_set(installed, fake_program, tmp_path):
    run([*_environment(ATHANOR_HOME="/srv/state of mine"), installed / "pulumi", "up"])
    run([*_environment(ATHANOR_HOME="/srv/state of mine"), installed / "kubectl", "get"])
    pulumi, kubectl = (call["env"] for call in fake_program.calls)
    assert pulumi["PULUMI_BACKEND_URL"] == "file:///srv/state of mine/pulumi?metadata=skip"
    assert pulumi["PULUMI_CONFIG_PASSPHRASE_FILE"] == "/srv/state of mine/passphrase"
    assert pulumi["PULUMI_HOME"] == str(tmp_path / "cache" / "pulumi-home")
    assert kubectl["KUBECONFIG"] == "/srv/state of mine/local/kubeconfig"


def test_no_proxy_stands_between_them_and_the_local_cluster(installed, fake_program, tmp_path):
    home = tmp_path / "state of mine"
    state.save(home / "local" / "state.json", state.State(block="10.70.64.0/18"))
    for name, own in (("pulumi", {"no_proxy": ".corp.example"}), ("kubectl", {})):
        run([*_environment(ATHANOR_HOME=str(home), **own), installed / name, "version"])
    pulumi, kubectl = (call["env"] for call in fake_program.calls)
    assert pulumi["NO_PROXY"] == pulumi["no_proxy"] == ".corp.example,localhost,127.0.0.1,10.70.64.0/18"
    assert kubectl["NO_PROXY"] == kubectl["no_proxy"] == "localhost,127.0.0.1,10.70.64.0/18"


@pytest.mark.parametrize(
    ("variables", "home"),
    [
        ({"HOME": "/home/user"}, "/home/user/.local/state/athanor"),
        ({"HOME": "/home/user", "XDG_STATE_HOME": "/state"}, "/state/athanor"),
        ({"HOME": "/home/user", "XDG_STATE_HOME": "/state", "ATHANOR_HOME": "/own"}, "/own"),
    ],
)
def test_the_folder_is_found_as_the_tools_find_it(installed, fake_program, variables, home):
    run([*_environment(**variables), installed / "kubectl", "get"])
    assert fake_program.calls[0]["env"]["KUBECONFIG"] == f"{home}/local/kubeconfig"


def test_the_users_variables_win(installed, fake_program):
    own = {
        "PULUMI_BACKEND_URL": "s3://bucket",
        "PULUMI_HOME": "/own/home",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "KUBECONFIG": "/own/kubeconfig",
    }
    run([*_environment(HOME="/home/user", **own), installed / "pulumi", "up"])
    run([*_environment(HOME="/home/user", **own), installed / "kubectl", "get"])
    pulumi, kubectl = (call["env"] for call in fake_program.calls)
    assert {name: pulumi[name] for name in own} == own
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in pulumi
    assert kubectl["KUBECONFIG"] == "/own/kubeconfig"


def test_the_language_host_finds_this_python_first(installed, fake_program):
    run([*_environment(HOME="/home/user"), installed / "pulumi", "up"])
    path = fake_program.calls[0]["env"]["PATH"].split(":")
    assert path[:2] == [str(installed), str(fake_program.path.parent)]
    assert path[2:] == ["/usr/bin", "/bin"]


def test_installing_again_replaces_the_programs(installed, monkeypatch, fake_program):
    monkeypatch.setattr(venv_commands.sys, "executable", str(installed / "python"))
    other = Path("/opt/other tool/pulumi")
    venv_commands.install_commands(other, fake_program.path)
    assert "exec '/opt/other tool/pulumi'" in (installed / "pulumi").read_text()
    assert json.dumps(str(fake_program.path))[1:-1] in (installed / "kubectl").read_text()
