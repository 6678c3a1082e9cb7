"""When two answers are equal: classes, tolerance, and numbers that are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.tables import each_row
from trainer.serve import model_config
from trainer.serve.config import ServeConfig
from trainer.serve.protocol.client_messages import AnsweredTensor
from trainer.serve.shadow_comparison import Comparer
from trainer.serve.shadow_config import ShadowConfig, shadow_address

NAN, INF = float("nan"), float("inf")
TYPES = {"FP32": np.float32, "INT64": np.int64, "UINT64": np.uint64, "BOOL": np.bool_}


def spec(datatype: str, batch: int = 8):
    return model_config.parse(
        f"""
        platform: "pytorch_libtorch" max_batch_size: {batch}
        input [{{ name: "x" data_type: TYPE_FP32 dims: [1] }}]
        output [{{ name: "y" data_type: TYPE_{datatype} dims: [-1] }}]
        """,
        "m",
    )


def compare(ours, theirs, datatype="FP32", *, batch=8, tolerance=None, classes=True):
    ours, theirs = (np.array(each, TYPES[datatype]) for each in (ours, theirs))
    answered = {"y": AnsweredTensor(datatype, list(theirs.shape), memoryview(theirs.tobytes()))}
    return Comparer(tolerance=tolerance, classes=classes).compare(spec(datatype, batch), [ours], answered)


@each_row(
    ("ours", "theirs", "options", "reason", "difference"),
    [
        ([[1, 2, 3]], [[1, 2, 3]], {"tolerance": 0}, None, 0),
        ([[1, 2, 3]], [[1.5, 2, 3]], {}, None, 0.5),
        ([[1, 2, 3]], [[1.5, 2, 3]], {"tolerance": 0.5}, None, 0.5),
        ([[1, 2, 3]], [[1.5, 2, 3]], {"tolerance": 0.25}, "value", 0.5),
        ([[1, 2, 3], [3, 2, 1]], [[1, 2, 3], [2, 3, 1]], {"tolerance": 9}, "class", 1),
        ([[1, 2, 3], [3, 2, 1]], [[1, 2, 3], [2, 3, 1]], {"tolerance": 9, "classes": False}, None, 1),
        ([[1, 2, 3], [3, 2, 1]], [[1, 2, 3], [2, 3, 1]], {"tolerance": 0.5}, "class", 1),
        ([[1], [2]], [[2], [1]], {}, None, 1),
        ([1, 2], [2, 1], {"batch": 0}, "class", 1),
        ([[NAN, 1]], [[NAN, 1]], {"tolerance": 0}, None, 0),
        ([[INF, 1]], [[INF, 1]], {"tolerance": 0}, None, 0),
        ([[1, INF]], [[1, 2]], {}, "value", None),
        ([[1, 2]], [[1, NAN]], {}, "value", None),
        ([[1, 2]], [[NAN, 2]], {}, "class", None),
        ([[-INF, 2]], [[INF, 2]], {"classes": False, "tolerance": 1}, "value", None),
        ([[1, 2]], [[2, 1]], {"datatype": "INT64", "tolerance": 9}, "value", 1),
        ([[2**64 - 1]], [[2**64 - 2]], {"datatype": "UINT64"}, "value", 0),
        ([[True, False]], [[True, True]], {"datatype": "BOOL"}, "value", 1),
        (np.zeros((0, 4)), np.zeros((0, 4)), {"tolerance": 0}, None, 0),
        (np.zeros((2, 0)), np.zeros((2, 0)), {"tolerance": 0}, None, 0),
        (7, 7.5, {"batch": 0}, None, 0.5),
    ],
)
def test_what_differs(ours, theirs, options, reason, difference):
    comparison = compare(ours, theirs, **options)
    assert (comparison.reason, comparison.difference) == (reason, difference)
    assert bool(comparison.detail) == (reason is not None)


@given(
    both=st.tuples(*[arrays.arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=True))] * 2),
    tolerance=st.floats(0, 10),
)
def test_within_the_tolerance_is_what_numpy_says(both, tolerance):
    comparison = compare(*both, tolerance=tolerance, classes=False)
    close = np.isclose(*(each.astype(np.float64) for each in both), rtol=0, atol=tolerance, equal_nan=True).all()
    assert (comparison.reason is None) == close


@each_row(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "https://host:8000",
        "http://host",
        "http://host:0",
        "http://host:99999",
        "http://host:8000/",
        "http://host:8000/v2",
        "http://user@host:8000",
        "http://[::1:8000",
        "http://ho st:8000",
        "http://host:8000\r\nx: y",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match=r"must be http://HOST:PORT"):
        ShadowConfig(shadow_url=url)


@each_row(
    ("url", "address"),
    [
        ("http://digits-shadow.team.svc:8000", ("digits-shadow.team.svc", 8000)),
        ("http://[fd00::1]:80", ("fd00::1", 80)),
    ],
)
def test_host_and_port_of_an_address(url, address):
    assert shadow_address(url) == address


@each_row(
    ("field", "value"),
    [
        ("shadow_share", 0),
        ("shadow_share", 1.1),
        ("shadow_share", NAN),
        ("shadow_tolerance", -1),
        ("shadow_tolerance", INF),
        ("shadow_classes", False),
        ("shadow_timeout_seconds", 0),
        ("shadow_queue_size", 0),
        ("shadow_queue_bytes", 0),
        ("shadow_model", "../other"),
    ],
)
def test_settings_that_cannot_work_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        ShadowConfig(**{field: value})


def test_off_by_default():
    assert ServeConfig(model_repository="/models", model_name="m").shadow.shadow_url is None
