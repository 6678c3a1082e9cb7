"""Several models in one server: a process for each, whose death the others do not notice."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc
import tritonclient.http

from tests.unit.trainer.serve import mutations
from tests.unit.trainer.serve.conftest import CONFIG, PROJECT, Endless, Repository, Server, poll

pytestmark = pytest.mark.long

MODELS = ("digits", "letters")
POISON = 7.0


class Hungry(torch.nn.Module):
    """Takes 2.4 GB for pixels above 5."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if bool(image.max() > 5.0):
            image = image + image.repeat(1, 1, 3000, 3000).sum()
        return image.flatten(1)[:, :10]


class Pair:
    """Two models in a repository, and servers of both."""

    def __init__(self, path: Path):
        self.digits, self.letters = (Repository(path, model) for model in MODELS)
        self.path = path
        for repository in (self.digits, self.letters):
            repository.configure()

    def publish(self, **digits):
        self.digits.publish(1, **digits)
        self.letters.publish(1, 10.0)


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path / "models")


@pytest.fixture
def start(pair):
    with contextlib.ExitStack() as stack:

        def start_server(*flags, **options):
            server = Server(pair.path, "--warmup_budget_seconds=0", *flags, models=MODELS, **options)
            stack.callback(server.close)
            server.wait_until_listening()
            return server

        yield start_server


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server of both for the tests that leave it as it is."""
    pair = Pair(tmp_path_factory.mktemp("pair") / "models")
    pair.publish()
    with contextlib.closing(Server(pair.path, "--grpc_port=0", models=MODELS)) as server:
        server.wait_until_listening()
        server.wait_until("/v2/health/ready")
        yield server


def worker_pid(server, model, after=0):
    """Return the process of a model that takes calls now; `after` one that has ended, another."""
    pattern = rf"{model}: process (?!{after} )(\d+) takes calls"
    return int(server.wait_for_log(pattern)[1])


def children(server) -> set[int]:
    listed = Path(f"/proc/{server.pid}/task").glob("*/children")
    return {int(word) for path in listed for word in path.read_text().split()}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def resident_mib(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Load:
    """Clients that ask both models without a pause, and count what they get."""

    def __init__(self, server, body):
        self.answers = {model: Counter() for model in MODELS}
        self._port, self._body = server.port, json.dumps(body)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(model,)) for model in MODELS for _ in range(3)]

    def _ask(self, model):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        with contextlib.closing(connection):
            while not self._stop.is_set():
                connection.request("POST", f"/v2/models/{model}/infer", self._body)
                response = connection.getresponse()
                response.read()
                self.answers[model][response.status] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_each_model_answers_over_both_protocols(shared):
    image = np.ones((2, 1, 8, 8), np.float32)
    for module, address in ((tritonclient.http, shared.address), (tritonclient.grpc, shared.grpc_address)):
        with module.InferenceServerClient(address) as client:
            assert client.is_server_ready()
            for model, factor in (("digits", 1.0), ("letters", 10.0)):
                assert client.is_model_ready(model, "1")
                tensor = module.InferInput("image", image.shape, "FP32")
                tensor.set_data_from_numpy(image)
                output = client.infer(model, [tensor]).as_numpy("logits")
                assert output.tolist() == [[factor] * 10] * 2
                classes = [module.InferRequestedOutput("logits", class_count=3)]
                assert client.infer(model, [tensor], outputs=classes).as_numpy("logits").shape == (2, 3)
                assert client.get_inference_statistics(model)


def test_index_statistics_and_metrics_have_both(shared, document):
    for model in MODELS:
        assert shared.request("POST", f"/v2/models/{model}/infer", document())[0] == 200
    index = shared.request("POST", "/v2/repository/index")[2]
    assert [(entry["name"], entry["version"], entry["state"]) for entry in index] == [
        (model, "1", "READY") for model in MODELS
    ]
    assert [each["name"] for each in shared.get("/v2/models/stats")[2]["model_stats"]] == list(MODELS)
    assert [each["name"] for each in shared.get("/v2/models/letters/stats")[2]["model_stats"]] == ["letters"]
    for model in MODELS:
        assert f'athanor_model_load_success{{model="{model}"}} 1' in shared.metrics()
        assert f'athanor_model_worker_restarts{{model="{model}"}} 0' in shared.metrics()
        assert re.search(rf'nv_inference_request_success{{model="{model}",version="1"}} [1-9]', shared.metrics())
    status, _, body = shared.request("POST", "/v2/models/words/infer", document())
    assert (status, body["error"]) == (404, "unknown model 'words'; serving: 'digits', 'letters'")


def test_the_server_itself_has_no_torch(shared):
    worker = worker_pid(shared, "digits")
    assert "torch" not in Path(f"/proc/{shared.pid}/maps").read_text()
    assert "torch" in Path(f"/proc/{worker}/maps").read_text()
    assert resident_mib(shared.pid) < 100


def test_damaged_requests_are_the_clients_fault_and_reach_no_process(shared):
    statuses = mutations.attack_http(shared, 300, seed=11)
    codes = mutations.attack_grpc_messages(shared, 150, seed=11)
    mutations.check(shared, statuses, codes)
    assert {"200", "400", "404"} <= statuses.keys()
    assert 'athanor_model_worker_restarts{model="digits"} 0' in shared.metrics()


def test_killed_process_costs_no_request(start, pair, document):
    pair.publish()
    server = start()
    server.wait_until("/v2/health/ready")
    killed = worker_pid(server, "digits")
    with Load(server, document()) as load:
        os.kill(killed, signal.SIGKILL)
        server.wait_for_log(rf"digits: process {killed} was killed by signal 9 \(Killed\); the next one starts in 0 s")
        status, headers, body = server.get("/v2/models/digits/ready")
        assert (status, headers["retry-after"], headers["x-athanor-retry"]) == (503, "1", "elsewhere")
        assert "its process was killed by signal 9 (Killed) and is being restarted" in body["error"]
        assert server.get("/v2/health/ready")[0] == 503
        assert server.get("/v2/models/letters/ready")[0] == 200
        states = {entry["name"]: entry["state"] for entry in server.request("POST", "/v2/repository/index")[2]}
        assert states == {"digits": "UNAVAILABLE", "letters": "READY"}
        server.wait_until("/v2/health/ready")
        assert worker_pid(server, "digits", after=killed) != killed
        seen = load.answers["digits"][200]
        server.wait_until_metric("nv_inference_pending_request_count", 0)
    assert load.answers["digits"][200] > seen
    assert set(load.answers["digits"]) == {200}
    assert set(load.answers["letters"]) == {200}
    assert 'athanor_model_worker_restarts{model="digits"} 1' in server.metrics()
    assert 'athanor_model_worker_restarts{model="letters"} 0' in server.metrics()


def test_request_that_kills_the_process_twice_is_refused_and_those_with_it_are_answered(start, pair, document):
    pair.digits.configure(CONFIG.replace("dynamic_batching {}", "dynamic_batching { preferred_batch_size: 2 }"))
    pair.publish(module=Endless())
    server = start()
    server.wait_until("/v2/health/ready")
    first = worker_pid(server, "digits")
    with ThreadPoolExecutor(2) as pool:
        poison = pool.submit(server.request, "POST", "/v2/models/digits/infer", document(value=POISON))
        server.wait_until_metric("athanor_running_batches", 1)
        waiting = pool.submit(server.request, "POST", "/v2/models/digits/infer", document())
        server.wait_until_metric("nv_inference_pending_request_count", 1)
        os.kill(first, signal.SIGKILL)
        os.kill(worker_pid(server, "digits", after=first), signal.SIGKILL)
        status, headers, body = poison.result()
        assert (status, headers["retry-after"], headers["x-athanor-retry"]) == (500, None, None)
        assert "the model's process died 2 times with this request: its process was killed by signal 9" in body["error"]
        assert waiting.result()[0] == 200
    assert server.request("POST", "/v2/models/letters/infer", document())[0] == 200
    assert 'athanor_model_worker_restarts{model="digits"} 2' in server.metrics()


def test_model_that_takes_too_much_memory_fails_on_that_request_alone(start, pair, document):
    pair.publish(module=Hungry())
    server = start("--model_options", "digits:max_memory_mib=256,num_cpu_threads=1,max_queue_size=3")
    server.wait_until("/v2/health/ready")
    status, _, body = server.request("POST", "/v2/models/digits/infer", document(value=POISON))
    assert (status, "allocate" in body["error"]) == (500, True)
    assert server.request("POST", "/v2/models/digits/infer", document())[0] == 200
    assert 'athanor_model_worker_restarts{model="digits"} 0' in server.metrics()


def test_queue_of_one_model_is_full_while_the_other_serves(start, pair, document):
    pair.publish(module=Endless())
    server = start("--model_options", "digits:max_queue_size=2", "--drain_timeout_seconds=1")
    server.wait_until("/v2/health/ready")
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.request, "POST", "/v2/models/digits/infer", document(value=POISON))]
        server.wait_until_metric("athanor_running_batches", 1)
        asked += [pool.submit(server.request, "POST", "/v2/models/digits/infer", document()) for _ in range(2)]
        server.wait_until_metric("nv_inference_pending_request_count", 2)
        status, _, body = server.request("POST", "/v2/models/digits/infer", document())
        assert (status, "limit: 2" in body["error"]) == (429, True)
        assert server.request("POST", "/v2/models/letters/infer", document())[0] == 200
        # a model that never returns holds neither the end nor its process
        processes = children(server)
        assert len(processes) == 2
        server.terminate()
        assert {each.result()[0] for each in asked} == {503}
    assert server.wait() == 0
    assert not any(map(is_running, processes))


def test_version_and_variant_of_one_model(start, pair, document):
    pair.publish()
    pair.letters.publish(2, 20.0)
    server = start("--model_options", "letters:version=1", "digits:variant=int8")
    server.wait_until("/v2/models/letters/ready")
    assert server.request("POST", "/v2/models/letters/infer", document())[2]["model_version"] == "1"
    server.wait_for_log("digits version 1: not served: published without the variant 'int8'")
    # the log's line is written before the server hears of it
    poll(lambda: "variant 'int8'" in server.get("/v2/health/ready")[2].get("error", ""), "a model that is not served")
    assert server.get("/v2/health/ready")[0] == 503


def test_explicit_load_and_unload_are_of_one_model(start, pair, document):
    pair.publish()
    server = start("--model_control=explicit")
    server.wait_until("/v2/health/ready")
    assert server.request("POST", "/v2/repository/models/digits/unload")[0] == 200
    server.wait_until("/v2/models/digits/ready", 503)
    # what somebody took out of service is not missing
    assert server.get("/v2/health/ready")[0] == 200
    assert server.request("POST", "/v2/models/letters/infer", document())[0] == 200
    pair.digits.publish(2)
    assert server.request("POST", "/v2/repository/models/digits/load")[0] == 200
    assert server.request("POST", "/v2/models/digits/infer", document())[2]["model_version"] == "2"
    assert server.request("POST", "/v2/repository/models/words/load")[0] == 404


def test_version_that_cannot_be_loaded_again_is_taken_from_the_repository_again(start, pair, document):
    pair.publish()
    server = start()
    server.wait_until("/v2/health/ready")
    shutil.rmtree(pair.digits.folder / "1")
    killed = worker_pid(server, "digits")
    os.kill(killed, signal.SIGKILL)
    server.wait_for_log("digits version 1: cannot be loaded again: .*sha256")
    server.wait_until("/v2/models/letters/ready")
    pair.digits.publish(2)
    server.wait_until("/v2/models/digits/versions/2/ready")
    assert server.request("POST", "/v2/models/digits/infer", document())[2]["model_version"] == "2"


def test_version_whose_load_kills_the_process_twice_is_left_alone(start, pair, document, wait_until):
    sample = 'model_warmup [{ name: "hangs" batch_size: 1 inputs [{ key: "image" value: { data_type: TYPE_FP32'
    pair.digits.configure(CONFIG + sample + ' dims: [1, 8, 8] input_data_file: "nines" } }] }]')
    (pair.digits.folder / "warmup").mkdir()
    (pair.digits.folder / "warmup" / "nines").write_bytes(np.full(64, 9.0, np.float32).tobytes())
    pair.publish(module=Endless())
    server = start()
    first = worker_pid(server, "digits")
    os.kill(first, signal.SIGKILL)
    os.kill(worker_pid(server, "digits", after=first), signal.SIGKILL)
    server.wait_for_log(r"digits version 1: not served: died 2 times while it was loaded: its process was killed by")
    # logged by the thread that loads, before the event loop knows
    wait_until(lambda: "version 1: died 2 times" in server.get("/v2/models/digits/ready")[2]["error"], "the reason")
    assert server.get("/v2/models/digits/ready")[0] == 503
    server.wait_until("/v2/models/letters/ready")
    assert server.request("POST", "/v2/models/letters/infer", document())[0] == 200
    pair.digits.configure()
    server.wait_until("/v2/health/ready")


def test_process_that_does_not_start_is_tried_again_with_pauses(pair, document):
    pair.publish()
    # a folder of its own in front of the interpreter's: `import torch` fails in the processes alone
    broken = pair.path.parent / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "__init__.py").write_text("raise SystemExit(3)")
    server = Server(
        pair.path, "--warmup_budget_seconds=0", models=MODELS, environment={"PYTHONPATH": f"{PROJECT}:{broken}"}
    )
    with contextlib.closing(server):
        server.wait_until_listening()
        server.wait_for_log(r"digits: process \d+ ended with exit code 3; the next one starts in 0 s")
        server.wait_for_log(r"digits: process \d+ ended with exit code 3; the next one starts in 1 s")
        status, headers, body = server.request("POST", "/v2/models/digits/infer", document())
        assert (status, headers["retry-after"]) == (503, "1")
        assert "ended with exit code 3 and is being restarted" in body["error"]
        shutil.rmtree(broken)
        server.wait_until("/v2/health/ready")


def test_stop_finishes_requests_and_leaves_no_process(start, pair, document):
    pair.publish()
    server = start("--drain_delay_seconds=0")
    server.wait_until("/v2/health/ready")
    processes = children(server)
    assert len(processes) == 2
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(server.request, "POST", f"/v2/models/{MODELS[n % 2]}/infer", document()) for n in range(4)]
        assert {each.result()[0] for each in asked} == {200}
    server.terminate()
    assert server.wait() == 0
    assert not any(map(is_running, processes))


def test_processes_end_with_a_server_that_is_killed(start, pair, wait_until):
    pair.publish()
    server = start()
    server.wait_until("/v2/health/ready")
    processes = children(server)
    assert len(processes) == 2
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, processes)), "the processes to end")
