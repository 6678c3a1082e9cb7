"""Downloads from a vendor, with a server on loopback in its place."""

import hashlib
import io
import re
import socket
import tarfile
import threading
from dataclasses import replace

import pytest

from tests.ports import Handler, answering
from tests.tables import each_row
from tools.toolchain import vendor
from tools.toolchain.catalogue import TOOLS
from tools.toolchain.tool import Vendor
from tools.toolchain.vendor import DIGESTS, UnreachableError, VendorError, Vendors, published_checksum

KUBELET = TOOLS["kubelet"]
PROGRAM = b"#!/bin/sh\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def archive(**files):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"release-1/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return target.getvalue()


@pytest.fixture
def server():
    """Serve the returned dictionary of path to content; what was asked for is in its `asked` list."""

    class Files(dict):
        def __init__(self):
            self.asked = []
            self.half, self.stalled = set(), set()
            self.is_over = threading.Event()

    files = Files()

    class FilesHandler(Handler):
        def answer(self):
            files.asked.append(self.path)
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            if self.path in files.half:
                self.send_header("Content-Length", str(2 * len(content)))
            self.end_headers()
            self.wfile.write(content or b"")
            if self.path in files.stalled:
                files.is_over.wait()

    with answering(FilesHandler) as httpd:
        files.address = f"http://127.0.0.1:{httpd.server_port}"
        yield files
        files.is_over.set()


def sold_by(address, tool=KUBELET, suffix=""):
    return replace(tool, vendor=Vendor(url=f"{address}/v{{version}}/{{arch}}/it{suffix}", checksums=f"{address}/sums"))


def offer(server, content, suffix="", checksum=None):
    path = f"/v{KUBELET.version}/{vendor.arch()}/it{suffix}"
    server[path] = content
    server["/sums"] = f"{checksum or sha256(content)}  ./it{suffix}\n".encode()


def offered_at(server):
    return f"{server.address}/v{KUBELET.version}/{vendor.arch()}/it"


def test_programs_are_taken_out_of_an_archive(server, tmp_path):
    pulumi = replace(TOOLS["pulumi"], version=KUBELET.version)
    content = {name: name.encode() for name in (*pulumi.programs, "pulumi-language-go")}
    offer(server, archive(**content), ".tar.gz")
    files = Vendors().download(sold_by(server.address, pulumi, ".tar.gz"), tmp_path)
    assert {name: file.read_bytes() for name, file in files.items()} == {
        name: name.encode() for name in pulumi.programs
    }


def test_an_archive_without_the_program_is_refused(server, tmp_path):
    offer(server, archive(readme=b"."), ".tgz")
    with pytest.raises(VendorError, match="does not contain kubelet"):
        Vendors().download(sold_by(server.address, suffix=".tgz"), tmp_path)


def test_what_differs_from_the_published_checksum_is_refused_and_not_kept(server, tmp_path):
    offer(server, PROGRAM, checksum=sha256(b"something else"))
    with pytest.raises(VendorError, match="SHA-256"):
        Vendors().download(sold_by(server.address), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stalled", [True, False], ids=["sends-nothing-more", "hangs-up"])
def test_a_server_that_stops_half_way_is_given_up(server, tmp_path, monkeypatch, stalled):
    monkeypatch.setattr(vendor, "_STALL_SECONDS", 0.2)
    offer(server, PROGRAM, checksum=sha256(2 * PROGRAM))
    server.half |= server.keys() - {"/sums"}
    server.stalled |= server.half if stalled else set()
    with pytest.raises(VendorError, match="broke off" if stalled else "SHA-256"):
        Vendors().download(sold_by(server.address), tmp_path)


def test_a_recorded_digest_is_all_that_counts_whatever_a_server_publishes(server, tmp_path, monkeypatch):
    offer(server, PROGRAM)
    monkeypatch.setattr(vendor, "DIGESTS", {offered_at(server): sha256(b"what was recorded")})
    with pytest.raises(VendorError, match=f"has SHA-256 {sha256(PROGRAM)}, but {sha256(b'what was recorded')}"):
        Vendors().download(sold_by(server.address), tmp_path)
    assert list(tmp_path.iterdir()) == []
    server["/sums"] = b"nothing of use"
    monkeypatch.setattr(vendor, "DIGESTS", {offered_at(server): sha256(PROGRAM)})
    assert Vendors().download(sold_by(server.address), tmp_path)["kubelet"].read_bytes() == PROGRAM
    assert "/sums" not in server.asked


def test_what_is_recorded_is_of_the_files_that_are_offered_now():
    """A digest of a version that is no longer wanted says nothing, and looks as if it did."""
    sold = [tool for tool in TOOLS.values() if tool.vendor]
    offered = {tool.vendor.addresses(tool.version, arch)[0] for tool in sold for arch in ("amd64", "arm64")}
    assert set(DIGESTS) <= offered
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in DIGESTS.values())
    for tool in sold:
        known = {tool.vendor.addresses(tool.version, arch)[0] in DIGESTS for arch in ("amd64", "arm64")}
        assert known == {not tool.vendor.checksums}, "the vendor's own word counts where there is no other"


def test_without_a_checksum_nothing_is_downloaded(server, tmp_path):
    offer(server, PROGRAM)
    server["/sums"] = f"{sha256(PROGRAM)}  another\n".encode()
    with pytest.raises(VendorError, match="do not list it"):
        Vendors().download(sold_by(server.address), tmp_path)
    offered = sold_by(server.address)
    with pytest.raises(VendorError, match=f"no digest of {offered_at(server)} is recorded"):
        Vendors().download(replace(offered, vendor=replace(offered.vendor, checksums="")), tmp_path)
    assert server.asked == ["/sums"]


def test_a_program_is_downloaded_also_after_a_file_that_is_missing(server, tmp_path):
    vendors = Vendors()
    with pytest.raises(VendorError, match="404"):
        vendors.download(sold_by(server.address), tmp_path)
    offer(server, PROGRAM)
    files = vendors.download(sold_by(server.address), tmp_path)
    assert {name: file.read_bytes() for name, file in files.items()} == {"kubelet": PROGRAM}


@pytest.fixture
def dead_server():
    """Yield the address of a server that accepts connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_does_not_answer_is_asked_once(dead_server, tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "PROBE_SECONDS", 0.2)
    vendors = Vendors()
    with pytest.raises(UnreachableError, match=r"did not answer|timed out"):
        vendors.download(sold_by(dead_server), tmp_path)
    monkeypatch.setattr(vendor, "_open", None)
    with pytest.raises(UnreachableError, match="did not answer"):
        vendors.download(sold_by(dead_server), tmp_path)


def test_a_name_that_does_not_resolve_is_given_up(tmp_path, monkeypatch):
    test_is_over, resolver_is_over = threading.Event(), threading.Event()

    def resolve(*_, **__):
        test_is_over.wait()
        resolver_is_over.set()
        raise OSError("no such name")

    monkeypatch.setattr(vendor, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(UnreachableError, match="did not answer within"):
        Vendors().download(sold_by("http://vendor.invalid"), tmp_path)
    test_is_over.set()
    resolver_is_over.wait()


def test_a_tool_without_a_vendor_is_refused(tmp_path):
    with pytest.raises(VendorError, match="no vendor"):
        Vendors().download(TOOLS["kwok"], tmp_path)


@each_row("text", [f"{'a' * 64}\n", f"{'b' * 64}  other\n{'A' * 64} *dir/it.tgz\n", f"\n{'a' * 64}  it.tgz  "])
def test_formats_of_checksum_files(text):
    assert published_checksum(text, "it.tgz") == "a" * 64


@each_row("text", ["", "not found", f"{'a' * 64}  it.tgz.sig", f"{'a' * 128}  it.tgz"])
def test_a_checksum_that_is_not_there(text):
    with pytest.raises(VendorError):
        published_checksum(text, "it.tgz")


def test_the_engine_installs_a_plugin(server, programs, tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "_PLUGIN_SERVER", f"{server.address}/plugins/")
    pulumi = programs("pulumi", f'echo "$PULUMI_HOME $*" > {tmp_path}/called')
    plugin = TOOLS["pulumi-resource-kubernetes"]
    Vendors().install_plugin(plugin, pulumi, tmp_path / "pulumi-home")
    called = (tmp_path / "called").read_text()
    assert called == f"{tmp_path}/pulumi-home plugin install resource kubernetes v{plugin.version}\n"
    assert server.asked == ["/plugins/"]


def test_a_failed_plugin_installation_is_the_vendors_failure(server, programs, tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "_PLUGIN_SERVER", f"{server.address}/plugins/")
    pulumi = programs("pulumi", "echo no such plugin >&2; exit 255")
    with pytest.raises(VendorError, match="no such plugin"):
        Vendors().install_plugin(TOOLS["pulumi-resource-kubernetes"], pulumi, tmp_path)


def test_the_engine_is_not_started_where_the_plugin_server_is_out_of_reach(dead_server, tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(vendor, "_PLUGIN_SERVER", f"{dead_server}/plugins/")
    with pytest.raises(UnreachableError):
        Vendors().install_plugin(TOOLS["pulumi-resource-kubernetes"], tmp_path / "no-such-program", tmp_path)
