"""Clients of the gateway see a certificate for its domain, which is created once."""

from __future__ import annotations

import base64
import ssl

import pytest

from tests.unit.trainer.helpers.fake_kubernetes_api import status
from trainer.helpers.gateway_certificate import main

SECRETS = "/api/v1/namespaces/gateway-system/secrets"
NAME = "certificate-models.example.com"


def run(folder, domain="models.example.com"):
    words = [f"--domain={domain}", "--namespace=gateway-system", f"--secret={NAME}", f"--folder={folder}"]
    return main(words)


def test_the_secret_holds_key_and_certificate_of_all_names_below_the_domain(api, tmp_path):
    assert run(tmp_path) == 0
    secret = api.objects[SECRETS][NAME]
    assert secret["type"] == "kubernetes.io/tls"
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(base64.b64decode(secret["data"][name]))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    decoded = ssl._ssl._test_decode_cert(str(tmp_path / "tls.crt"))
    assert decoded["subjectAltName"] == (("DNS", "*.models.example.com"),)


def test_one_that_exists_stays(api, tmp_path, capsys):
    api.objects[SECRETS] = {NAME: {"data": "of an earlier update"}}
    assert run(tmp_path) == 0
    assert api.objects[SECRETS] == {NAME: {"data": "of an earlier update"}}
    assert "present" in capsys.readouterr().out


@pytest.mark.usefixtures("api")
def test_a_long_domain_has_one_too(tmp_path):
    """A common name has 64 characters at most."""
    assert run(tmp_path, domain=f"{'a' * 60}.example.com") == 0


def test_a_refusal_is_reported(api, tmp_path, capsys):
    api.answers[("POST", SECRETS)] = [status(403, "not allowed")]
    assert run(tmp_path) == 1
    assert "not allowed" in capsys.readouterr().err
