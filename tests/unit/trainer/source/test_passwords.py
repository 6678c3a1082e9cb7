"""Private repositories: passwords that go where they belong and are shown nowhere."""

from __future__ import annotations

import base64
import ssl
import subprocess

import pytest

from tests.fixtures.git_server import GitServer
from tests.unit.trainer.source.conftest import PASSWORD
from tests.unit.trainer.source.fetched import files
from trainer.source.__main__ import OWN_FOLDER


@pytest.fixture
def locked(server) -> GitServer:
    server.credentials = ("robot", PASSWORD)
    return server


@pytest.mark.usefixtures("locked")
def test_a_password_from_the_mounted_secret(*, repository, fetch, destination, credentials_dir, tmp_path, capfd):
    repository.commit({"a": "1"})
    record = tmp_path / "shared" / "source.json"
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir), "--record", str(record)) == 0
    assert files(destination) == {"a": "1"}
    written = [path.read_text() for path in (record, destination / OWN_FOLDER / "source.json")]
    assert not any("s3cret" in text for text in [*written, *capfd.readouterr()])


def test_a_wrong_password_is_tried_once_and_shown_nowhere(repository, locked, fetch, credentials_dir, capfd):
    repository.commit({"a": "1"})
    (credentials_dir / "password").write_text("wr0ng-s3cret")
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    output = "".join(capfd.readouterr())
    assert "user name or password refused. Fix: correct the Secret" in output
    assert "s3cret" not in output
    assert len(locked.requests) == 1


@pytest.mark.usefixtures("locked")
def test_no_password_where_one_is_wanted(repository, fetch, capfd):
    repository.commit({"a": "1"})
    assert fetch("--branch", "main") == 1
    assert "wants a user name and password. Fix: name a Secret" in capfd.readouterr().err


@pytest.mark.parametrize("encoded", [False, True])
def test_a_server_that_repeats_the_password(server, fetch, credentials_dir, capfd, encoded):
    secret = base64.b64encode(f"robot:{PASSWORD}".encode()).decode() if encoded else PASSWORD
    server.answers.append((302, {"Location": f"http://x/{secret}".encode().decode("latin-1")}, b""))
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    error = capfd.readouterr().err
    assert "has moved to http://x/***." in error
    assert secret not in error


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("password", None, "cannot be read: No such file"),
        ("username", None, "cannot be read: No such file"),
        ("password", "\n", "is empty"),
        ("username", "a:b", "cannot hold a colon"),
    ],
)
def test_a_secret_that_is_not_whole(*, fetch, credentials_dir, capfd, name, content, message):
    path = credentials_dir / name
    path.unlink() if content is None else path.write_text(content)
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    error = capfd.readouterr().err
    assert message in error
    assert str(path) in error


def test_a_certificate_of_an_own_authority(repository, tmp_path, start, destination):
    repository.commit({"a": "1"})
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options.split(), *names], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with GitServer(repository.folder.parent, tls=tls) as server:
        arguments = ["--repository", f"{server.url}/code", "--branch", "main", "--destination", str(destination)]
        refused = start(*arguments)
        assert "certificate is not accepted" in refused.communicate(timeout=60)[1]
        assert refused.returncode == 1
        accepted = start(*arguments, environment={"SSL_CERT_FILE": str(certificate)})
        assert accepted.communicate(timeout=60)[1].startswith("source: https://127.0.0.1")
    assert files(destination) == {"a": "1"}


# Servers that are not there yet, or go away
