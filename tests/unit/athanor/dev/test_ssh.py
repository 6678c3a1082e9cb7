"""An ssh server for editors: its script with stand-ins for the image's programs, and what the client is given."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import pytest

from athanor.command_line import parser
from athanor.dev import ssh as module
from athanor.dev.command import _work
from athanor.dev.ssh import Server, public_key, start_server, write_entry
from infra.errors import RefusalError

KEY = "ssh-ed25519 AAAAC3Nza somebody@here"
PROGRAMS = {
    "sshd": 'printf "%s\\n" "$@" >> {folder}/started; sleep 60 >/dev/null 2>&1 & echo $! > {place}/pid',
    "ssh-keygen": 'while [ "$1" != -f ]; do shift; done; echo private > "$2"; echo ssh-ed25519 HOST pod > "$2.pub"',
    "id": "echo athanor",
}


class Cluster:
    """A cluster with one pod, whose commands run here."""

    def __init__(self, folder, *, runs: bool = True) -> None:
        self.folder, self.runs = folder, runs
        self.prefix = ["sh", "-c", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "kubectl"]

    def items(self, _kind: str, _selector: str):
        states = [{"name": "worker", "started": True, "state": {"running": {}}}]
        spec = {"containers": [{"name": "worker", "image": "own:1"}]}
        pod = {"metadata": {"name": "dev-a"}, "spec": spec, "status": {"phase": "Running", "containerStatuses": states}}
        return [pod] if self.runs else []


@pytest.fixture
def place(tmp_path, monkeypatch):
    place = tmp_path / "place"
    monkeypatch.setattr(module, "_PLACE", str(place))
    return place


@pytest.fixture
def image(tmp_path, place, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text.format(folder=tmp_path, place=place)}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    yield programs
    with suppress(FileNotFoundError, subprocess.CalledProcessError):
        subprocess.run(["kill", (place / "pid").read_text().strip()], check=True)


@pytest.mark.usefixtures("image")
def test_the_server_takes_the_one_key_and_listens_in_the_pod_alone(tmp_path, place):
    assert start_server(Cluster(tmp_path), "dev-a", "/data/dev", KEY) == Server(
        user="athanor", host_key="ssh-ed25519 HOST"
    )
    assert (place / "keys").read_text() == f"{KEY}\n"
    assert (place / "host").stat().st_mode & 0o77 == 0
    options = (tmp_path / "started").read_text().splitlines()
    assert "AAAAC3Nza" not in " ".join(options)
    for option in ("-oListenAddress=127.0.0.1", "-oPasswordAuthentication=no", f"-oHostKey={place}/host"):
        assert option in options
    assert options[options.index("-p") + 1] == "2222"


@pytest.mark.usefixtures("image")
def test_a_session_has_the_containers_environment_and_starts_in_the_folder(tmp_path, place, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "it's\nlong")
    start_server(Cluster(tmp_path), "dev-a", str(tmp_path), KEY)
    session = ["sh", "-c", f". {place}/session"]
    own = {"PATH": "/bin:/usr/bin", "SSH_ORIGINAL_COMMAND": "pwd; printf '%s' \"$WANDB_API_KEY\"; exit 7"}
    done = subprocess.run(session, env=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"{tmp_path}\nit's\nlong")
    shell = subprocess.run(session, env={}, input="pwd", capture_output=True, text=True, check=True)
    assert shell.stdout == f"{tmp_path}\n"


def test_a_server_that_runs_is_not_started_again(tmp_path, image, place):
    (image / "grep").write_text(f"#!/bin/sh\n[ -e {place}/pid ]\n")
    (image / "grep").chmod(0o755)
    for key in (KEY, f"{KEY}-2"):
        start_server(Cluster(tmp_path), "dev-a", "/data/dev", key)
    assert (tmp_path / "started").read_text().count("-oHostKey") == 1
    assert (place / "keys").read_text() == f"{KEY}-2\n"


def test_an_image_without_a_server_is_refused(tmp_path, image):
    (image / "sshd").unlink()
    with pytest.raises(RefusalError, match=r"--ssh = 'own:1': is an image without sshd .* Fix: install openssh-server"):
        start_server(Cluster(tmp_path), "dev-a", "/data/dev", KEY)


def test_a_server_that_does_not_start_says_why(tmp_path, image):
    (image / "sshd").write_text("#!/bin/sh\necho 'Missing /etc/passwd' >&2; exit 255\n")
    with pytest.raises(RefusalError, match="did not start: Missing /etc/passwd"):
        start_server(Cluster(tmp_path), "dev-a", "/data/dev", KEY)


def test_a_pod_that_is_gone_is_refused(tmp_path):
    with pytest.raises(RefusalError, match="does not run any more"):
        start_server(Cluster(tmp_path, runs=False), "dev-a", "/data/dev", KEY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read .* Fix: create one with `ssh-keygen -t ed25519`"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n", "is not a public key .* the private key stays"),
        (f"{KEY}\n{KEY}\n", "is not a public key of OpenSSH in one line"),
    ],
)
def test_what_is_not_one_public_key_is_refused(tmp_path, text, message):
    file = tmp_path / "id.pub"
    if text is not None:
        file.write_text(text)
    with pytest.raises(RefusalError, match=message):
        public_key(file)


def test_a_public_key_is_read(tmp_path):
    (tmp_path / "id.pub").write_text(f"{KEY}\n")
    assert public_key(tmp_path / "id.pub") == KEY


def test_the_client_knows_the_pod_by_its_key(tmp_path):
    entry = tmp_path / "dev-a.ssh_config"
    write_entry(entry, "dev-a", Server(user="athanor", host_key="ssh-ed25519 HOST"), "2200", tmp_path / "id.pub")
    lines = [line.strip() for line in entry.read_text().splitlines()]
    assert lines[:4] == ["Host dev-a", "HostName 127.0.0.1", "Port 2200", "User athanor"]
    assert f'IdentityFile "{tmp_path}/id"' in lines
    assert "StrictHostKeyChecking yes" in lines
    assert (tmp_path / "dev-a.known_hosts").read_text() == "dev-a ssh-ed25519 HOST\n"


@pytest.mark.usefixtures("image")
def test_the_command_prints_how_to_connect(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "id.pub").write_text(KEY)
    (tmp_path / "here").mkdir()
    words = ["--ssh", "--ssh-key", str(tmp_path / "id.pub"), "--", "true"]
    arguments = parser().parse_args(["dev", *words])
    assert _work(arguments, Cluster(tmp_path), "dev-a", (tmp_path / "here", str(tmp_path / "there"))) == 0
    [entry] = tmp_path.rglob("*.ssh_config")
    said = capsys.readouterr().err
    assert f"ssh: ssh -F {entry} dev-a" in said
    assert f'Include "{entry.parent}/*.ssh_config"\nthe host is dev-a\n' in said


@pytest.mark.parametrize("port", ["22:22", "0", "x"])
def test_a_port_that_is_none_is_a_wrong_argument(port, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["dev", "--ssh", port])
    assert "port" in capsys.readouterr().err
