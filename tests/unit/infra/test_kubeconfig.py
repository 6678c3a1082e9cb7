"""One context, self-contained: no other cluster's credentials and no path of this machine may enter the state."""

from __future__ import annotations

import base64

import pytest
import yaml

from infra.errors import RefusalError
from infra.kubeconfig import minified_kubeconfig
from tests.fixtures.recorded_stack import FOREIGN_TOKEN, OWN_KEY, write_kubeconfig
from tests.tables import each_row


@pytest.fixture
def kubeconfig(tmp_path):
    return write_kubeconfig(tmp_path)


def _edit(file, change):
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))


def _decoded(text):
    return base64.b64decode(text).decode()


def test_relative_and_absolute_files_are_put_inside(kubeconfig):
    minified = yaml.safe_load(minified_kubeconfig(kubeconfig, "athanor-local"))
    [cluster], [user] = minified["clusters"], minified["users"]
    assert _decoded(cluster["cluster"]["certificate-authority-data"]) == "content of ca.crt"
    assert _decoded(user["user"]["client-certificate-data"]) == "content of client.crt"
    assert _decoded(user["user"]["client-key-data"]) == OWN_KEY
    assert not {"certificate-authority", "client-certificate", "client-key"} & {*cluster["cluster"], *user["user"]}


def test_only_the_context_that_was_asked_for_remains(kubeconfig, tmp_path):
    """Whatever the file's current-context is."""
    text = minified_kubeconfig(kubeconfig, "athanor-local")
    minified = yaml.safe_load(text)
    assert minified["current-context"] == "athanor-local"
    assert [entry["name"] for entry in minified["contexts"]] == ["athanor-local"]
    assert minified["contexts"][0]["context"] == {"cluster": "local", "user": "admin", "namespace": "athanor"}
    assert FOREIGN_TOKEN not in text
    assert "elsewhere" not in text
    assert str(tmp_path) not in text


def test_the_result_is_the_same_every_time(kubeconfig):
    """Else every preview would show a changed provider."""
    before = minified_kubeconfig(kubeconfig, "athanor-local")
    _edit(kubeconfig, lambda content: content["contexts"].reverse())
    assert minified_kubeconfig(kubeconfig, "athanor-local") == before


def test_the_result_can_be_read_again(kubeconfig, tmp_path):
    again = tmp_path / "again"
    again.write_text(minified_kubeconfig(kubeconfig, "athanor-local"))
    assert minified_kubeconfig(again, "athanor-local") == again.read_text()


def test_a_token_file_is_put_inside(kubeconfig, tmp_path):
    (tmp_path / "token").write_text("short-lived\n")
    _edit(kubeconfig, lambda content: content["users"][0].update(user={"tokenFile": "token"}))
    [user] = yaml.safe_load(minified_kubeconfig(kubeconfig, "athanor-local"))["users"]
    assert user["user"] == {"token": "short-lived"}


def test_credential_plugins_are_kept_as_they_are(kubeconfig):
    plugin = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "ack-ram-tool", "args": ["token"]}}
    _edit(kubeconfig, lambda content: content["users"][0].update(user=plugin))
    [user] = yaml.safe_load(minified_kubeconfig(kubeconfig, "athanor-local"))["users"]
    assert user["user"] == plugin


def test_a_missing_file_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(RefusalError, match="make up") as caught:
        minified_kubeconfig(tmp_path / "absent", "athanor-local")
    assert str(tmp_path / "absent") in str(caught.value)


def test_an_unknown_context_is_refused_with_the_known_ones(kubeconfig):
    with pytest.raises(RefusalError, match="did you mean athanor-local") as caught:
        minified_kubeconfig(kubeconfig, "athanor-locl")
    assert caught.value.field == "athanor:cluster.context"


@each_row(
    "content",
    [
        b"",
        b"[]",
        b"just text",
        b"a: [unclosed",
        b"\xff\xfe\x00",
        b"contexts: {}\nclusters: []\nusers: []",
        b"contexts: [{name: a}]\nclusters: []\nusers: []",
        b"!!python/object/apply:os.system ['true']",
    ],
    ids=["empty", "list", "text", "no-yaml", "binary", "wrong-type", "no-cluster", "code"],
)
def test_what_is_not_a_kubeconfig_is_refused(tmp_path, content):
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    with pytest.raises(RefusalError, match="is not a valid kubeconfig"):
        minified_kubeconfig(file, "a")
    with pytest.raises(RefusalError, match="cannot be read"):
        minified_kubeconfig(tmp_path, "a")


@pytest.mark.parametrize(("section", "kind"), [("clusters", "cluster"), ("users", "user")])
def test_a_context_that_names_nothing_is_refused(kubeconfig, section, kind):
    _edit(kubeconfig, lambda content: content.update({section: content[section][1:]}))
    with pytest.raises(RefusalError, match=f"{kind} of context athanor-local"):
        minified_kubeconfig(kubeconfig, "athanor-local")


def test_a_missing_certificate_is_refused_by_its_name(kubeconfig, tmp_path):
    (tmp_path / "pki" / "ca.crt").unlink()
    with pytest.raises(RefusalError, match=r"certificate-authority = .*ca\.crt.*cannot be read"):
        minified_kubeconfig(kubeconfig, "athanor-local")
