from __future__ import annotations

import os
import signal

from trainer.training.signals import StopRequest


def test_stop_signals_are_remembered_and_handlers_put_back():
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest()
    assert not stop.requested
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.requested
    stop.close()
    assert signal.getsignal(signal.SIGTERM) is before
