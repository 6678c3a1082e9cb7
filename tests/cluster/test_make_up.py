"""The first ten minutes of a user: `make up` and what works from then on."""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import tritonclient.http as triton

from tools.images.containerd import LINKED_FROM_BYTES, NODE_BLOBS
from trainer.training import digits

if TYPE_CHECKING:
    from tests.fixtures.clone import Clone

MINIMUM_ACCURACY = 0.97


def service_address(clone: Clone) -> str:
    """Return host:port of the served model, as this machine reaches it."""
    service = clone.object("services", "digits")
    return f"{service['spec']['clusterIP']}:8000"


def test_up_ends_with_the_accuracy_that_the_pods_reached_and_right_predictions(served: Clone) -> None:
    printed = (served.home / "make-up.txt").read_text(encoding="utf-8")

    accuracy = re.search(r"test accuracy\s+([\d.]+)%", printed)
    assert accuracy, printed
    assert float(accuracy.group(1)) / 100 >= MINIMUM_ACCURACY
    assert printed.count("✓ ") >= 6, printed  # every step
    assert len(re.findall(r"served: \d ✓", printed)) >= 3, printed


def test_up_prints_where_this_machine_opens_metrics_alerts_and_logs(served: Clone) -> None:
    printed = (served.home / "make-up.txt").read_text(encoding="utf-8")

    pages = dict(re.findall(r"^\s+(metrics|alerts|logs)\s+(http://\S+)", printed, re.MULTILINE))
    assert set(pages) == {"metrics", "alerts", "logs"}, printed
    for address in pages.values():
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.status == 200, address


def test_the_model_was_trained_by_two_pods_on_the_node(served: Clone) -> None:
    [job] = served.objects("jobs")

    assert job["status"]["state"]["phase"] == "Completed"
    pods = served.objects("pods", "athanor.dev/job=digits-training")
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"local-node-0"}
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}


def test_the_exported_manifest_describes_the_served_file(served: Clone) -> None:
    folder = served.home / "local" / "volumes" / "output" / "models" / "digits"
    manifest = json.loads((folder / "1" / "manifest.json").read_text(encoding="utf-8"))

    assert manifest["accuracy"] >= MINIMUM_ACCURACY
    assert len(manifest["sha256"]) == 64
    assert manifest["torch_version"]
    assert "pytorch_libtorch" in (folder / "config.pbtxt").read_text(encoding="utf-8")


def test_training_published_an_8_bit_variant_and_up_compares_it_with_the_model(served: Clone) -> None:
    folder = served.home / "local" / "volumes" / "output" / "models" / "digits" / "1"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))

    variant = manifest["variants"]["int8"]
    assert variant["accuracy"] >= manifest["accuracy"] - 0.005
    assert set(variant["latency_ms"]) == {"batch_1", "batch_16"}
    assert (folder / variant["model_file"]).stat().st_size == variant["size_bytes"] < manifest["size_bytes"]
    printed = (served.home / "make-up.txt").read_text(encoding="utf-8")
    assert f"int8 variant     {variant['accuracy']:.2%} of the held-out digits" in printed, printed


def test_the_node_has_large_layers_as_links_to_the_cache(served: Clone) -> None:
    """If containerd kept its blobs elsewhere, all of them would be sent, hashed and written once more."""
    layers = [file.stat() for file in (served.home / "local" / NODE_BLOBS).iterdir()]
    assert any(layer.st_nlink > 1 and layer.st_size >= LINKED_FROM_BYTES for layer in layers)


def test_a_second_up_changes_nothing(served: Clone) -> None:
    served.pulumi("up", "--yes", "--expect-no-changes")


def test_make_up_again_ends_with_the_same_model(served: Clone) -> None:
    printed = served.make("up")

    assert "digits version 1" in printed


def test_an_official_client_classifies_every_held_out_digit(served: Clone) -> None:
    held_out = digits.from_source("held_out")
    client = triton.InferenceServerClient(service_address(served))
    right = 0
    for start in range(0, len(held_out), 50):
        images = held_out.images[start : start + 50]
        tensor = triton.InferInput("image", list(images.shape), "FP32")
        tensor.set_data_from_numpy(np.ascontiguousarray(images))
        logits = client.infer("digits", [tensor]).as_numpy("logits")
        right += int((logits.argmax(axis=1) == held_out.labels[start : start + 50]).sum())

    assert right / len(held_out) >= MINIMUM_ACCURACY


def test_predict_draws_any_held_out_image(served: Clone) -> None:
    assert re.search(r"held-out 42\s", served.make("predict", "IMAGE=42"))


def test_a_proxy_of_the_users_is_not_asked_for_the_cluster(served: Clone) -> None:
    proxy = "http://127.0.0.1:9"  # nobody listens there
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), proxy)
    behind = replace(served, variables=proxies | {"no_proxy": "localhost,.corp.example", "NO_PROXY": ""})

    assert re.search(r"held-out 42\s", behind.make("predict", "IMAGE=42"))
    assert "local-node-0" in behind.kubectl("get", "nodes")
    assert "Previewing" in behind.pulumi("preview", "--expect-no-changes")


def test_predict_refuses_an_image_that_does_not_exist(served: Clone) -> None:
    printed = served.make("predict", "IMAGE=100000", check=False)

    assert "IMAGE = 100000: is not one of the held-out images" in printed
    assert "0 to 363" in printed


def test_status_shows_processes_pods_and_jobs(served: Clone) -> None:
    printed = served.make("status")

    for expected in ("kube-apiserver", "volcano-scheduler", "digits-training", "Completed", "local-node-0"):
        assert expected in printed


def test_logs_shows_every_rank_with_its_pod(served: Clone) -> None:
    printed = served.make("logs", "JOB=digits-training")

    assert re.search(r"^\[worker-0\] ", printed, re.MULTILINE)
    assert re.search(r"^\[worker-1(/\w+)?\] ", printed, re.MULTILINE)


def test_logs_of_an_unknown_job_names_the_known_ones(served: Clone) -> None:
    printed = served.make("logs", "JOB=digits-trainin", check=False)

    assert "'digits-trainin'" in printed
    assert "did you mean digits-training" in printed


def test_outputs_are_flat_and_hold_no_secret(served: Clone) -> None:
    outputs = served.outputs()

    assert outputs["contract_version"] == 1
    assert all(isinstance(value, str | int | float | bool) for value in outputs.values())
    assert outputs == json.loads(served.pulumi("stack", "output", "--json", "--show-secrets"))


def test_the_state_holds_no_credential_in_clear(served: Clone) -> None:
    kubeconfig = (served.home / "local" / "kubeconfig").read_text(encoding="utf-8")
    key = re.search(r"client-key-data:\s*(\S+)", kubeconfig)
    assert key
    state = served.pulumi("stack", "export")

    assert key.group(1) not in state
    assert "client-key-data" not in state
    assert str(served.folder) not in state


def test_private_files_are_private(served: Clone) -> None:
    assert (served.home / "passphrase").stat().st_mode & 0o777 == 0o600
    assert (served.home / "local" / "kubeconfig").stat().st_mode & 0o077 == 0


def test_pods_cannot_do_more_than_they_need(served: Clone) -> None:
    [pod, *_] = served.objects("pods", "athanor.dev/service=digits")
    name = pod["metadata"]["name"]

    identity = served.kubectl("exec", "-n", "athanor", name, "--", "id", "-u").strip()
    assert identity == "10001"
    written = served.kubectl("exec", "-n", "athanor", name, "--", "touch", "/opt/athanor/x", check=False)
    assert "Read-only file system" in written
    token = served.kubectl("exec", "-n", "athanor", name, "--", "ls", "/var/run/secrets", check=False)
    assert "No such file" in token


def test_the_service_exposes_metrics(served: Clone) -> None:
    [pod, *_] = served.objects("pods", "athanor.dev/service=digits")
    client = "import urllib.request as u; print(u.urlopen('http://digits:8002/metrics').read().decode())"
    printed = served.kubectl("exec", "-n", "athanor", pod["metadata"]["name"], "--", "python3", "-c", client)

    assert re.search(r'nv_inference_request_success\{.*model="digits".*\} [1-9]', printed)
