"""A Kubernetes API server on loopback, and a service account that it knows."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime

import pytest

from tests.unit.trainer.helpers.fake_kubernetes_api import TOKEN, FakeKubernetesApi
from trainer.helpers import kubernetes_api

NOW = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=kubernetes"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options.split(), *names], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def account(tmp_path, certificate):
    """The folder of the service account, as it is mounted."""
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "ca.crt").write_text(certificate[0].read_text())
    return folder


@pytest.fixture
def api(certificate, account, monkeypatch):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    with FakeKubernetesApi(tls, NOW) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", account)
        yield server
