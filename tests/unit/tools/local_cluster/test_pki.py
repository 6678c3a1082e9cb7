import ssl
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml

from tools.local_cluster import kubeconfig, pki
from tools.process import CommandError, run


def authority(folder: Path) -> pki.Authority:
    folder.mkdir()
    made = pki.Authority(folder / "ca.crt", folder / "ca.key")
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run([*new, "-keyout", made.key, "-out", made.certificate, "-subj", "/CN=kwok-ca", "-days", "2"])
    return made


def described(certificate: Path) -> str:
    return run(["openssl", "x509", "-in", certificate, "-noout", "-text"])


def test_an_authority_is_created_once_signs_and_is_replaced_when_its_key_is_lost(tmp_path: Path) -> None:
    created = pki.ensure_authority(tmp_path, "front-proxy-ca")
    issued = pki.issue(created, tmp_path, "client", subject="/CN=front-proxy-client")
    assert pki.ensure_authority(tmp_path, "front-proxy-ca") == created
    run(["openssl", "verify", "-CAfile", created.certificate, issued.certificate])
    assert "CA:TRUE" in described(created.certificate)
    assert created.key.stat().st_mode & 0o077 == 0
    before = created.certificate.read_bytes()
    created.key.unlink()
    assert pki.ensure_authority(tmp_path, "front-proxy-ca").certificate.read_bytes() != before


def test_a_client_certificate_names_user_and_group(tmp_path: Path) -> None:
    issued = pki.issue(authority(tmp_path / "ca"), tmp_path, "kubelet", subject="/O=system:nodes/CN=system:node:n")
    text = described(issued.certificate)
    assert "O = system:nodes, CN = system:node:n" in text
    assert "TLS Web Client Authentication" in text
    assert issued.key.stat().st_mode & 0o077 == 0
    ssl.create_default_context().load_cert_chain(issued.certificate, issued.key)


def test_a_server_certificate_holds_its_address(tmp_path: Path) -> None:
    issued = pki.issue(
        authority(tmp_path / "ca"), tmp_path, "s", subject="/CN=n", server_address=IPv4Address("10.1.2.3")
    )
    text = described(issued.certificate)
    assert "IP Address:10.1.2.3" in text
    assert "TLS Web Server Authentication" in text


def test_certificates_are_kept_until_the_authority_changes_or_the_key_is_lost(tmp_path: Path) -> None:
    first, second = authority(tmp_path / "first"), authority(tmp_path / "second")
    issued = pki.issue(first, tmp_path, "c", subject="/CN=c")
    original = issued.certificate.read_bytes()
    assert pki.issue(first, tmp_path, "c", subject="/CN=c").certificate.read_bytes() == original
    renewed = pki.issue(second, tmp_path, "c", subject="/CN=c")
    run(["openssl", "verify", "-CAfile", second.certificate, renewed.certificate])
    with pytest.raises(CommandError):
        run(["openssl", "verify", "-CAfile", first.certificate, renewed.certificate])
    renewed.key.unlink()
    issued = pki.issue(second, tmp_path, "c", subject="/CN=c")
    ssl.create_default_context().load_cert_chain(issued.certificate, issued.key)


def test_a_kubeconfig_holds_everything_and_is_private(tmp_path: Path) -> None:
    ca = authority(tmp_path / "ca")
    identity = pki.issue(ca, tmp_path, "admin", subject="/CN=admin")
    content = kubeconfig.kubeconfig(
        server="https://10.1.2.3:6443", authority=ca.certificate, identity=identity, context="athanor-x"
    )
    file = tmp_path / "kubeconfig"
    kubeconfig.write(file, content)
    written = file.stat().st_mtime_ns
    kubeconfig.write(file, content)
    assert file.stat().st_mtime_ns == written
    assert file.stat().st_mode & 0o777 == 0o600
    assert str(tmp_path) not in file.read_text()
    read = yaml.safe_load(file.read_text())
    assert read["current-context"] == "athanor-x"
    assert read["clusters"][0]["cluster"]["server"] == "https://10.1.2.3:6443"
