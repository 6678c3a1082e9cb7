"""Asking the served model, here a small server of the test's own on loopback."""

import json

import pytest

from tests.ports import Handler, answering
from tools.operations.predict import Prediction, ServingError, draw, is_ready, predict
from trainer.training import digits


class _Handler(Handler):
    def answer(self) -> None:
        request = json.loads(self.body() or "{}")
        self.server.requests.append((self.path, request))
        answer = self.server.answer or (self._labelled(request) if request else {})
        self.respond(self.server.status, json.dumps(answer).encode())

    def _labelled(self, request: dict) -> dict:
        """Answer with the place of each image, and with a nine for the last."""
        count = request["inputs"][0]["shape"][0]
        labels = [*range(count - 1), 9]
        logits = [float(place == label) for label in labels for place in range(10)]
        outputs = [{"name": "logits", "datatype": "FP32", "shape": [count, 10], "data": logits}]
        return {"model_name": "digits", "model_version": "4", "outputs": outputs}


@pytest.fixture
def server():
    with answering(_Handler) as running:
        running.address = f"127.0.0.1:{running.server_port}"
        running.requests, running.status, running.answer = [], 200, None
        yield running


def test_held_out_digits_are_asked_about_in_one_request_and_in_order(server):
    predictions = predict(server.address, "digits", [5, 3, 0])
    [(path, request)] = server.requests
    assert path == "/v2/models/digits/infer"
    [sent] = request["inputs"]
    held_out = digits.from_source("held_out")
    assert (sent["name"], sent["datatype"], sent["shape"]) == ("image", "FP32", [3, 1, 8, 8])
    assert sent["data"] == held_out.images[[5, 3, 0]].flatten().tolist()
    labels = held_out.labels[[5, 3, 0]].tolist()
    assert [(one.index, one.label) for one in predictions] == list(zip([5, 3, 0], labels, strict=True))
    assert [one.predicted for one in predictions] == [0, 1, 9]
    assert [one.correct for one in predictions] == [label == one for label, one in zip(labels, [0, 1, 9], strict=True)]
    assert {prediction.model_version for prediction in predictions} == {"4"}


def test_digits_that_a_job_has_prepared_are_read_where_they_are(server, tmp_path, monkeypatch):
    digits.prepare(tmp_path)
    source = digits.from_source("held_out")
    monkeypatch.setattr(digits, "from_source", lambda _: pytest.fail("the slow way"))
    monkeypatch.setattr(_Handler, "_labelled", lambda *_: {"outputs": [{"data": [float(n == 3) for n in range(10)]}]})
    [prediction] = predict(server.address, "digits", [7], tmp_path)
    assert prediction.pixels == source.images[7, 0].tolist()
    assert prediction.label == source.labels[7]


def test_digits_that_nobody_has_prepared_or_that_are_damaged_come_from_their_source(server, tmp_path):
    sent = predict(server.address, "digits", [7], tmp_path / "absent")
    digits.prepare(tmp_path)
    (tmp_path / digits.FOLDER / "held_out_images.npy").write_bytes(b"damaged")
    assert predict(server.address, "digits", [7], tmp_path) == sent


@pytest.mark.parametrize("index", [-1, 10**6])
def test_an_image_that_does_not_exist_is_refused_before_asking(server, index):
    with pytest.raises(ValueError, match=rf"IMAGE = {index}: is not one of the held-out images 0 to \d+"):
        predict(server.address, "digits", [0, index])
    assert server.requests == []


def test_the_servers_own_error_is_shown(server):
    server.status, server.answer = 400, {"error": "input image: wrong shape"}
    with pytest.raises(ServingError, match=r"answered 400: .*wrong shape"):
        predict(server.address, "digits", [0])


def test_nobody_listening_is_reported_with_the_remedy(server):
    server.server_close()
    with pytest.raises(ServingError, match="make status"):
        predict(server.address, "digits", [0])


def test_a_model_is_ready_when_there_is_a_server_that_says_so(server):
    assert is_ready(server.address, "digits")
    assert server.requests == [("/v2/models/digits/ready", {})]
    server.status = 503
    assert not is_ready(server.address, "digits")
    server.server_close()
    assert not is_ready(server.address, "digits")


def _prediction(predicted: int, index: int = 42) -> Prediction:
    pixels = [[0.0, 0.25, 0.5, 0.75, 1.0, 0.0, 0.0, 0.0], *[[0.0] * 8] * 6, [1.0] * 8]
    return Prediction(index=index, pixels=pixels, label=7, predicted=predicted, model_version="1")


@pytest.mark.parametrize(("predicted", "answer"), [(7, "served: 7 ✓"), (1, "served: 1 ✗ is 7")])
def test_a_digit_is_drawn_with_label_and_answer(predicted, answer):
    lines = draw([_prediction(predicted)]).split("\n")
    assert (lines[0], lines[7]) == ("  ░░▒▒▓▓██      ", "█" * 16)
    assert [line.rstrip() for line in lines[8:]] == ["held-out 42", answer]


def test_digits_stand_side_by_side_in_columns():
    lines = draw([_prediction(7, 1), _prediction(1, 2), _prediction(7, 3)]).split("\n")
    assert {len(line) for line in lines} == {3 * 16 + 2 * 3}
    assert [line.index("served") for line in lines if "served" in line] == [0]
    assert lines[8].index("held-out 2") == lines[9].index("served: 1") == 19
