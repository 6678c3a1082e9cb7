"""Names of classes: read with the configuration, in the answers of both protocols, and read again when they change."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import CONFIG
from trainer.serve import labels, model_config
from trainer.serve.errors import ModelLoadError
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels
from trainer.serve.protocol.infer_request import RequestedOutput
from trainer.serve.protocol.outputs import output_tensor

LABELLED = CONFIG.replace("dims: [10]", 'dims: [10] label_filename: "labels.txt"')


def labelled(folder, name="labels.txt"):
    spec = model_config.parse(LABELLED.replace("labels.txt", name), "digits")
    return labels.with_labels(spec, folder).outputs[0].labels


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"zero\none\n", ("zero", "one")),
        (b"zero\r\none", ("zero", "one")),
        (b"zero\n\na b: c\n\n", ("zero", "", "a b: c", "")),
        ("fünf\x85f\n".encode(), ("fünf\x85f",)),
        (b"", ("",)),
    ],
)
def test_a_line_is_a_name(tmp_path, content, expected):
    (tmp_path / "labels.txt").write_bytes(content)
    assert labelled(tmp_path) == expected


def test_the_file_may_be_in_a_folder_and_an_output_may_have_none(tmp_path):
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "a.txt").write_text("a\n")
    assert labelled(tmp_path, "names/a.txt") == ("a",)
    assert labels.with_labels(model_config.parse(CONFIG, "digits"), tmp_path).outputs[0].labels == ()


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/labels.txt", "a/../../b", r"a\000"])
def test_other_places_are_refused(tmp_path, name):
    with pytest.raises(
        ModelLoadError, match=r"output 'logits': label_filename=.* must be a file in the model's folder"
    ):
        labelled(tmp_path, name)


def test_a_link_is_followed_inside_the_models_folder_alone(tmp_path):
    model, data = tmp_path / "digits", tmp_path / "digits" / "..data"
    data.mkdir(parents=True)
    (tmp_path / "secret").write_text("token\n")
    (data / "labels.txt").write_text("zero\n")
    (model / "labels.txt").symlink_to("..data/labels.txt")  # as Kubernetes mounts a ConfigMap
    assert labelled(model) == ("zero",)
    (data / "labels.txt").unlink()
    (data / "labels.txt").symlink_to("../../secret")
    (model / "up").symlink_to("..")
    for name in ("labels.txt", "up/secret"):
        with pytest.raises(ModelLoadError, match="not one that a link there leads to"):
            labelled(model, name)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\xff\n", "not UTF-8"), (b"a" * (labels._MAX_BYTES + 1), "larger than 16777216 bytes")]
)
def test_what_is_not_a_list_of_names_is_refused(tmp_path, content, reason):
    (tmp_path / "labels.txt").write_bytes(content)
    with pytest.raises(ModelLoadError, match=f"label_filename='labels.txt': {reason}"):
        labelled(tmp_path)


def test_a_class_without_a_name_has_its_number_alone():
    spec = model_config.parse(CONFIG, "digits")
    named = replace(spec, outputs=(replace(spec.outputs[0], labels=("a", "", "größe: x")),))
    answer = output_tensor(RequestedOutput(index=0, binary=False, classes=4), named, [np.arange(4.0, 0, -1)[None]])
    assert answer.values() == ["4.000000:0:a", "3.000000:1", "2.000000:2:größe: x", "1.000000:3"]


@each_row(
    ("values", "largest"),
    [
        (np.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1]), ["9223372036854775807:3", "9007199254740993:1"]),
        (np.array([2**64 - 2, 2**64 - 1, 0], np.uint64), ["18446744073709551615:1", "18446744073709551614:0"]),
        (np.array([-128, 127, 127], np.int8), ["127:1", "127:2"]),
        (np.array([False, True, True]), ["1:1", "1:2"]),
        (np.array([np.nan, 0.5, -np.inf, 0.5]), ["0.500000:1", "0.500000:3"]),
        (np.array([0.1, 65504.0], np.float16), ["65504.000000:1", "0.099976:0"]),
    ],
)
def test_the_largest_values_are_exact_and_equal_ones_in_order(values, largest):
    spec = model_config.parse(CONFIG, "digits")
    answer = output_tensor(RequestedOutput(index=0, binary=False, classes=2), spec, [values[None]])
    assert answer.values() == largest


def test_labels_are_awaited_and_read_again_when_they_change(repository):
    published = []
    loader = ModelLoader(repository.folder, LocalModels(0.0, None).load, published.append)
    repository.configure(LABELLED)
    repository.publish(1)
    assert "labels.txt does not exist" in loader.sync().problem

    file = repository.folder / "labels.txt"
    file.write_text("zero\n")
    assert loader.sync().models[1].spec.outputs[0].labels == ("zero",)
    file.write_text("null\n")
    assert loader.sync().models[1].spec.outputs[0].labels == ("null",)
    assert loader.sync() == published[-1]
    assert len(published) == 3
    file.write_bytes(b"\xff")
    assert "not UTF-8" in loader.sync().problem
    assert published[-1].models[1].spec.outputs[0].labels == ("null",)


def test_tritons_clients_get_names(repository, start):
    repository.configure(LABELLED)
    repository.publish(1)
    (repository.folder / "labels.txt").write_text("zero\none\n")
    server = start("--grpc_port=0")
    server.wait_until("/v2/health/ready")
    image = np.ones((1, 1, 8, 8), np.float32)
    for module, address in ((tritonclient.http, server.address), (tritonclient.grpc, server.grpc_address)):
        tensor = module.InferInput("image", image.shape, "FP32")
        tensor.set_data_from_numpy(image)
        with contextlib.closing(module.InferenceServerClient(address)) as client:
            output = module.InferRequestedOutput("logits", class_count=3)
            answer = client.infer("digits", [tensor], outputs=[output]).as_numpy("logits")
        assert answer.tolist() == [[b"1.000000:0:zero", b"1.000000:1:one", b"1.000000:2"]]
