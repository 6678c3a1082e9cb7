"""An API server that extends the cluster's gets a certificate that the cluster's trusts."""

from __future__ import annotations

import base64
import ssl

import pytest

from tests.unit.trainer.helpers.fake_kubernetes_api import status
from trainer.helpers.serving_certificate import main

HOST = "prometheus-adapter.monitoring.svc"
NAMES = ("v1beta1.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io")
PATHS = [f"/apis/apiregistration.k8s.io/v1/apiservices/{name}" for name in NAMES]


def run(folder):
    return main([f"--host={HOST}", f"--folder={folder}", "--api_services", *NAMES])


def test_every_api_service_trusts_this_certificate_and_no_other(api, tmp_path):
    assert run(tmp_path) == 0
    pem = (tmp_path / "tls.crt").read_bytes()
    assert pem.count(b"BEGIN CERTIFICATE") == 1
    assert api.changes == {path: {"spec": {"caBundle": base64.b64encode(pem).decode()}} for path in PATHS}


@pytest.mark.usefixtures("api")
def test_it_is_accepted_for_the_service_by_whom_it_was_given_to(tmp_path):
    """By a TLS client that knows nothing but what is in caBundle, and only under the Service's name."""
    run(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    assert handshake(client, server, HOST)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(client, server, "grafana.monitoring.svc")


def handshake(client, server, host):
    """Return whether both sides agree; everything stays in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    agreed = set()
    while len(agreed) < 2:
        for side in (ours, theirs):
            try:
                side.do_handshake()
                agreed.add(side)
            except ssl.SSLWantReadError:
                pass
    return True


@pytest.mark.usefixtures("api")
def test_nobody_else_reads_the_key(tmp_path):
    run(tmp_path)
    assert (tmp_path / "tls.key").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("api")
def test_every_start_has_another_key(tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        run(folder)
    assert len({(folder / "tls.key").read_bytes() for folder in folders}) == 2


def test_an_api_service_that_cannot_be_changed_is_a_failure(api, tmp_path, capsys):
    api.answers["PATCH", PATHS[1]] = [status(403, "apiservices is forbidden")]
    assert run(tmp_path) == 1
    assert f"PATCH {PATHS[1]}: 403 apiservices is forbidden" in capsys.readouterr().err


@pytest.mark.usefixtures("api")
def test_an_image_without_openssl_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(tmp_path) == 1
    assert "Fix: use an image with openssl" in capsys.readouterr().err


@pytest.mark.usefixtures("api")
def test_what_openssl_says_is_passed_on(tmp_path, capsys):
    assert run(tmp_path / "missing") == 1
    assert "openssl: " in capsys.readouterr().err
