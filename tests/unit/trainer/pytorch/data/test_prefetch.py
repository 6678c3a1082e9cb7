"""The thread that takes the next batch: order, errors, and its end."""

from __future__ import annotations

import threading

import pytest

from trainer.pytorch.data.prefetch import Prefetch

PATIENCE_SECONDS = 60


def test_the_next_batch_is_taken_while_a_step_computes():
    taken = [threading.Event() for _ in range(5)]

    def batches():
        for number, event in enumerate(taken):
            event.set()
            yield number

    ahead = Prefetch(batches())
    assert taken[1].wait(PATIENCE_SECONDS), "nobody has asked for it"
    assert [ahead.take(PATIENCE_SECONDS) for _ in range(4)] == [0, 1, 2, 3]
    ahead.close()


def test_what_a_batch_raised_is_raised_in_its_place_and_again():
    def batches():
        yield 0
        raise ValueError("damaged")

    ahead = Prefetch(batches())
    assert ahead.take(PATIENCE_SECONDS) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            ahead.take(PATIENCE_SECONDS)
    ahead.close()


def test_a_batch_that_is_late_is_not_waited_for():
    late = threading.Event()

    def batches():
        late.wait(PATIENCE_SECONDS)
        yield 0

    ahead = Prefetch(batches())
    assert ahead.take(0.01) is None
    late.set()
    assert ahead.take(PATIENCE_SECONDS) == 0
    ahead.close()


def test_the_end_lets_go_of_the_readers_however_much_was_taken():
    for count in range(3):
        ended = threading.Event()

        def batches(ended=ended):
            try:
                while True:
                    yield 0
            finally:
                ended.set()

        ahead = Prefetch(batches())
        for _ in range(count):
            ahead.take(PATIENCE_SECONDS)
        ahead.close()
        assert ended.is_set()
        assert not ahead._thread.is_alive()
