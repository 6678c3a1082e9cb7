"""TensorFlow itself, imported and configured once; the only place that imports it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from trainer.common.cpu import threads_per_process
from trainer.training.nvidia_driver import shows_gpus


class DeviceError(Exception):
    """GPUs are not there, or would be unused; the message says what to do."""


def load(*, num_gpu: int | None, one_gpu: bool = False, concurrent_calls: int = 1) -> Any:  # noqa: ANN401  it has no types
    """Import TensorFlow for this process.

    Args:
        num_gpu: GPUs to use; with 0 CUDA is not even looked for. None: all that this process sees.
        one_gpu: Whether the process has no use for more than one.
        concurrent_calls: graphs that others may have running here at once.

    Raises:
        DeviceError: there are fewer GPUs than asked for, or some that nobody asked to leave unused.
    """
    if num_gpu is None and not shows_gpus():
        num_gpu = 0
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # TensorFlow imports Keras 3 at its start unless a variable asks for another one. Nothing here uses Keras (its
    # optimizer and `fit` do not work in a coordinator's functions), and leaving it out saves a third of the start.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    if num_gpu == 0:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    tf: Any = importlib.import_module("tensorflow")
    tf.get_logger().setLevel("ERROR")
    compute, concurrent = thread_counts(concurrent_calls)
    tf.config.threading.set_intra_op_parallelism_threads(compute)
    tf.config.threading.set_inter_op_parallelism_threads(concurrent)
    if num_gpu != 0:
        _use_gpus(tf, num_gpu, one_gpu=one_gpu)
    return tf


def gpus(tf: Any) -> int:  # noqa: ANN401
    """Return how many GPUs this process uses."""
    return len(tf.config.get_visible_devices("GPU"))


def thread_counts(concurrent_calls: int) -> tuple[int, int]:
    """Return threads within an operation and operations at once.

    The second is never 1: a call that waits for another task would keep out the call that the other task waits for
    (seen: with 1 no step ever ends).
    """
    threads = threads_per_process(1)
    return threads, max(threads, concurrent_calls + 2)


def _use_gpus(tf: Any, num_gpu: int | None, *, one_gpu: bool) -> None:  # noqa: ANN401
    present = tf.config.list_physical_devices("GPU")
    if num_gpu is None and not present:
        fix = "Fix: an image with TensorFlow's GPU libraries, a newer driver, or --num_gpu 0 to compute on the CPU"
        raise DeviceError(f"this machine shows GPUs, but TensorFlow can use none of them. {fix}")
    if num_gpu is None and one_gpu and len(present) > 1:
        fix = "Fix: one GPU per worker and more workers, or --num_gpu 1 to leave the others unused"
        raise DeviceError(f"this machine has {len(present)} usable GPUs, of which this process uses one. {fix}")
    if num_gpu is not None and len(present) < num_gpu:
        fix = "Fix: request that many GPUs for the pod, or --num_gpu 0 to compute on the CPU"
        raise DeviceError(f"num_gpu={num_gpu}: TensorFlow finds {len(present)} usable GPUs here. {fix}")
    used = present[:num_gpu]
    tf.config.set_visible_devices(used, "GPU")
    for gpu in used:
        tf.config.experimental.set_memory_growth(gpu, enable=True)
