import socket
import sys
from pathlib import Path

import pytest

from trainer.serve import lifecycle
from trainer.serve.config import ServeConfig


@pytest.fixture
def switch_interval():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switch_interval")
def test_threads_of_models_wait_shorter_for_the_interpreter_than_python_lets_them():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ServeConfig(
            model_repository=Path("/models"), model_name=("digits",), http_port=taken.getsockname()[1], metrics_port=0
        )
        assert lifecycle.run(config) == 1
    assert sys.getswitchinterval() == pytest.approx(lifecycle.SWITCH_INTERVAL_SECONDS)
