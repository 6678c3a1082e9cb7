"""Requests to local clusters pass every proxy by; all others go as the environment says."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.ports import Handler, answering
from tests.waiting import PATIENCE_SECONDS
from tools import proxies
from tools.local_cluster import state

BLOCK = "10.70.64.0/18"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one cluster, and a folder that is none."""
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    state.save(tmp_path / "local" / "state.json", state.State(block=BLOCK))
    (tmp_path / "pulumi").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("proxy", "own", "joined"),
    [
        ("HTTP_PROXY", {"NO_PROXY": "localhost,.corp.example"}, "localhost,.corp.example"),
        ("https_proxy", {"NO_PROXY": "localhost,.corp.example"}, "localhost,.corp.example"),
        ("ALL_PROXY", {"NO_PROXY": "localhost,.corp.example"}, "localhost,.corp.example"),
        ("http_proxy", {"no_proxy": ".corp.example"}, ".corp.example,localhost"),
    ],
)
def test_the_networks_of_clusters_join_what_needs_no_proxy(proxy: str, own: dict[str, str], joined: str) -> None:
    environment = {proxy: "http://proxy.example:3128", **own}
    proxies.reach_local_clusters_directly(environment)
    proxies.reach_local_clusters_directly(environment)
    expected = f"{joined},127.0.0.1,{BLOCK}"
    assert (environment["NO_PROXY"], environment["no_proxy"]) == (expected, expected)


def test_without_a_proxy_nothing_changes() -> None:
    environment = {"PATH": "/bin", "HTTPS_PROXY": ""}
    proxies.reach_local_clusters_directly(environment)
    assert environment == {"PATH": "/bin", "HTTPS_PROXY": ""}


class _Proxy(Handler):
    def answer(self) -> None:
        self.respond(200, f"the proxy was asked for {self.path}".encode())


@pytest.fixture
def asked_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that the environment names as the proxy for everything."""
    with answering(_Proxy) as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield


def ask(url: str, timeout_seconds: float = PATIENCE_SECONDS) -> str:
    with proxies.urlopen(urllib.request.Request(url), timeout_seconds=timeout_seconds) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("url", ["http://metrics.corp.example/x", "http://10.70.0.1/x"])
@pytest.mark.usefixtures("asked_proxy")
def test_other_places_are_asked_through_the_proxy(url: str) -> None:
    assert ask(url) == f"the proxy was asked for {url}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", str(ip_network(BLOCK)[9])])
@pytest.mark.usefixtures("asked_proxy")
def test_clusters_and_this_machine_are_asked_directly(host: str) -> None:
    with pytest.raises(urllib.error.URLError):  # nobody listens there, and the proxy would have answered
        ask(f"http://{host}:9/x", timeout_seconds=2)  # which a network without a host uses up
