"""The activator as a process, asked over HTTP as a proxy asks it, with an API server on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.trainer.helpers.conftest import account, api, certificate  # noqa: F401 - fixtures
from tests.unit.trainer.helpers.fake_kubernetes_api import status
from tests.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[4]
DEPLOYMENTS = "/apis/apps/v1/namespaces/athanor/deployments"
SCALE = f"{DEPLOYMENTS}/digits/scale"
START = """
import sys
from pathlib import Path
from trainer.activator.__main__ import main
from trainer.helpers import kubernetes_api

kubernetes_api.SERVICE_ACCOUNT = Path(sys.argv.pop(1))
sys.exit(main())
"""


def deployment(*, replicas: int, ready: int, idle: str = "3600", hold: str = "60"):
    labels = {"idle": idle, "hold": hold}
    return {
        "metadata": {"name": "digits", "labels": labels, "generation": 2},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready, "observedGeneration": 2},
    }


@pytest.fixture
def activator(api, account):  # noqa: F811
    """Address of the port that proxies ask, and of the metrics; the process ends with the test."""
    api.objects[DEPLOYMENTS] = {"digits": deployment(replicas=1, ready=1)}
    command = [
        sys.executable,
        "-c",
        START,
        str(account),
        "--namespace=athanor",
        "--idle_label=idle",
        "--hold_label=hold",
    ]
    process = subprocess.Popen(
        [*command, "--port=0", "--metrics_port=0", "--look_seconds=0.05"],
        cwd=REPOSITORY, env=os.environ, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr
        line = process.stderr.readline()
        ports = re.search(r"port (\d+), metrics on (\d+)", line)
        assert ports, line
        addresses = [f"http://127.0.0.1:{port}" for port in ports.groups()]
        wait_until(lambda: ask(f"{addresses[0]}/ready")[0] == 200, "the activator to be ready")
        yield (*addresses, process)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def ask(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_request_is_held_until_a_pod_answers(api, activator):  # noqa: F811
    asked, metrics, _ = activator
    assert ask(f"{asked}/hold/digits") == (200, "")
    api.objects[DEPLOYMENTS]["digits"] = deployment(replicas=0, ready=0)
    looked = len(api.requests)
    wait_until(lambda: len(api.requests) > looked + 2, "two more looks")
    with ThreadPoolExecutor() as threads:
        held = threads.submit(ask, f"{asked}/hold/digits")
        wait_until(lambda: api.changes.get(SCALE) == {"spec": {"replicas": 1}}, "the first pod")
        assert not held.done()
        api.objects[DEPLOYMENTS]["digits"] = deployment(replicas=1, ready=1)
        assert held.result() == (200, "")
    text = ask(f"{metrics}/metrics")[1]
    assert 'athanor_activator_requests_total{namespace="athanor",outcome="held",workload="digits"} 1.0' in text
    assert 'athanor_activator_held_seconds_count{namespace="athanor",workload="digits"} 1.0' in text


def test_the_client_reads_why_nothing_started(api, activator):  # noqa: F811
    asked, _, _ = activator
    api.objects[DEPLOYMENTS]["digits"] = deployment(replicas=0, ready=0, hold="0.1")
    looked = len(api.requests)
    wait_until(lambda: len(api.requests) > looked + 2, "two more looks")
    code, body = ask(f"{asked}/hold/digits")
    assert code == 503
    assert json.loads(body) == {"error": "digits: no pod was ready within 0.1 s. Fix: retry"}
    assert ask(f"{asked}/hold/unknown")[0] == 404


def test_a_pod_of_an_earlier_state_does_not_count(api, activator):  # noqa: F811
    """The Deployment says it has a ready pod, but has not looked since it was changed."""
    asked, _, _ = activator
    stale = deployment(replicas=1, ready=1, hold="0.1")
    stale["metadata"]["generation"] = 3
    api.objects[DEPLOYMENTS]["digits"] = stale
    looked = len(api.requests)
    wait_until(lambda: len(api.requests) > looked + 2, "two more looks")
    assert ask(f"{asked}/hold/digits")[0] == 503


def test_labels_of_somebody_else_are_left_alone(api, activator):  # noqa: F811
    asked, _, _ = activator
    api.objects[DEPLOYMENTS]["digits"] = deployment(replicas=0, ready=0, idle="soon")
    wait_until(lambda: ask(f"{asked}/hold/digits")[0] == 404, "the service to be unknown")
    assert SCALE not in api.changes


def test_it_continues_after_a_refusal_and_ends_when_it_is_asked_to(api, activator):  # noqa: F811
    asked, _, process = activator
    api.answers[("GET", DEPLOYMENTS)] = [status(401, "Unauthorized")]
    wait_until(lambda: not api.answers[("GET", DEPLOYMENTS)], "the refusal")
    assert ask(f"{asked}/hold/digits")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
