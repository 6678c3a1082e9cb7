"""The role `chief`: the training loop over workers and parameter servers.

Asynchronous: steps are handed to whichever worker is free; each applies its gradients to the weights on the parameter
servers as soon as it has them, perhaps computed from weights that others have changed meanwhile.

Synchronous: a step's batch is cut into one shard per worker. The chief waits for all gradients, averages them and
applies the mean once. Shards are of equal size and a shard's gradient is the mean over its samples, so the mean over
shards is the gradient of the whole batch: any number of workers follows the same curve as one.

A lost worker: its steps go to the others (`ClusterCoordinator`), which work on; it takes part again once every lost
worker is back. A lost parameter server takes weights with it: the chief ends and resumes from the latest checkpoint.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainer.tf import framework, run
from trainer.tf.cluster import wait_for_servers
from trainer.tf.metrics import RunMetrics
from trainer.tf.model import Batching, take_batch
from trainer.training import cifar
from trainer.training.signals import STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.tf.cluster import Cluster
    from trainer.tf.config import ParameterServerConfig
    from trainer.tf.stop import Stop

_IO_DEVICE = "/job:chief/replica:0/task:0/device:CPU:0"
_POLL_SECONDS = 0.005
_PROGRESS_SECONDS = 2.0


class _StoppedError(Exception):
    """A stop signal came while steps were under way."""


class Chief:
    """Runs one training; one instance per process."""

    def __init__(self, config: ParameterServerConfig, cluster: Cluster, stop: Stop) -> None:
        """Connect to workers and parameter servers, and resume from the latest checkpoint.

        Raises:
            ClusterError: some of them cannot be reached in time.
            RunError: settings that do not fit the run or the number of workers.
            DataError: the data set cannot be used.
        """
        self._config = config
        self._cluster = cluster
        self._stop = stop
        self._workers = cluster.sizes["worker"]
        self._shards = self._workers if config.mode == "sync" else 1
        self._batching = Batching(batch_size=config.batch_size, shards=self._shards, seed=config.seed)
        run.begin(config, shards=self._shards)
        self._metrics = RunMetrics(config, rank=cluster.rank)
        self._tf = framework.load(num_gpu=0, concurrent_calls=self._workers)
        # only now: a run that is refused leaves nothing behind
        self._events = run.open_log(config, cluster.rank)
        # before TensorFlow connects: it would wait for a missing pod forever and without saying for which
        wait_for_servers(cluster, ("ps", "worker"), seconds=config.init_timeout_seconds)
        self._connect()

    def train(self) -> int:
        """Train to the last step and publish the result; return the exit status."""
        config = self._config
        step = self._checkpoints.latest_step()
        self._metrics.begin(step, saved_at=self._checkpoints.latest_time())
        self._checkpoints.restore(step)
        self._events.write("resumed" if step else "started", step=step, mode=config.mode, world=self._cluster.sizes)
        self._stop.remember_only()
        try:
            while step < config.steps:
                until = min(config.steps, step + config.checkpoint_interval_steps)
                loss = self._train_sync(step, until) if config.mode == "sync" else self._train_async(step, until)
                self._metrics.on_loss(loss)
                run.require_finite(loss, self._state.current_step, remember_in=config.folders.run)
                step = self._save()
                self._events.write("step", step=step, loss=loss)
        except _StoppedError:
            step = self._save()
            self._events.write("stopped", step=step)
            return STOPPED_EXIT_STATUS
        except self._tf.errors.UnavailableError as error:
            # lost workers are dealt with by the coordinator; this is a ps, and a part of the weights with it
            fix = "Fix: start the chief again; it resumes from the latest checkpoint"
            self._events.write("failed", step=step, error=type(error).__name__)
            raise run.RunError(f"a parameter server was lost after step {step}. {fix}") from error
        run.finish(self._tf, config, self._state, self._events, mode=config.mode, world=self._cluster.sizes)
        self._metrics.finish(self._stop)
        return 0

    def _save(self) -> int:
        with self._metrics.saving():
            return self._checkpoints.save()

    def _connect(self) -> None:
        tf = self._tf
        strategy = tf.distribute.ParameterServerStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec(self._cluster.training_tasks), task_type="chief", task_id=0, rpc_layer="grpc"
            )
        )
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self._state = run.State.create(tf, self._config, strategy)
        self._checkpoints = run.Checkpoints(tf, self._config, self._state, io_device=_IO_DEVICE)
        self._records = iter(self._coordinator.create_per_worker_dataset(self._dataset))
        self._gradients_of = tf.function(self._loss_and_gradients)
        self._update = tf.function(self._loss_and_update)
        self._apply = tf.function(self._apply_mean)

    def _dataset(self) -> Any:  # noqa: ANN401
        """Give each worker the whole training split as one element, again and again, from its own data_dir."""
        tf = self._tf
        files = cifar.files_of(self._config.data_dir, "train")
        total = sum(map(cifar.count_records, files))
        records = tf.data.FixedLengthRecordDataset([str(file) for file in files], cifar.RECORD_BYTES).batch(total)

        def decode(lines: Any) -> Any:  # noqa: ANN401
            return tf.io.decode_raw(lines, tf.uint8)

        return records.map(decode).cache().repeat()

    def _loss_and_gradients(self, records: Any, step: Any, shard: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401
        images, labels = take_batch(self._tf, next(records), self._batching, step=step, shard=shard)
        return self._state.network.loss_and_gradients(images, labels)

    def _loss_and_update(self, records: Any, step: Any) -> Any:  # noqa: ANN401
        loss, gradients = self._loss_and_gradients(records, step, self._int(0))
        self._state.optimizer.apply(gradients)
        self._state.step.assign_add(1)
        return loss

    def _apply_mean(self, parts: list[list[Any]]) -> None:
        tf = self._tf
        self._state.optimizer.apply([tf.add_n(list(shards)) / len(parts) for shards in zip(*parts, strict=True)])
        self._state.step.assign_add(1)

    def _train_async(self, begin: int, end: int) -> float:
        """Hand out all steps at once; return their mean loss.

        The end of the interval is the only moment when anybody waits for all: the checkpoint then holds whole steps.
        """
        results = [
            self._coordinator.schedule(self._update, args=(self._records, self._int(step)))
            for step in range(begin, end)
        ]
        self._join(progress=self._progress)
        self._metrics.on_progress(end)
        return sum(float(result.fetch()) for result in results) / len(results)

    def _progress(self) -> int:
        step = self._state.current_step
        self._metrics.on_progress(step)
        return step

    def _train_sync(self, begin: int, end: int) -> float:
        """Run the steps one after the other; return their mean loss."""
        losses: list[float] = []
        for step in range(begin, end):
            losses.append(self.synchronous_step(step))
            self._metrics.on_progress(step + 1, losses[-1])
        return sum(losses) / len(losses)

    def synchronous_step(self, step: int) -> float:
        """Run one step with all workers' gradients; return its loss."""
        results = [
            self._coordinator.schedule(self._gradients_of, args=(self._records, self._int(step), self._int(shard)))
            for shard in range(self._shards)
        ]
        self._join()
        parts = [result.fetch() for result in results]
        self._apply([gradients for _, gradients in parts])
        return sum(float(loss) for loss, _ in parts) / len(parts)

    def _join(self, progress: Callable[[], int] | None = None) -> None:
        """Wait for all steps handed out, as `ClusterCoordinator.join` does, but not forever.

        Raises:
            _StoppedError: a stop signal came.
            RunError: nothing moved for train_timeout_seconds.
            tensorflow.errors.OpError: a step failed for another reason than the loss of a worker.
        """
        limit = self._config.train_timeout_seconds
        moved = looked = time.monotonic()
        last = -1
        while not self._coordinator.done():
            if self._stop.wait(_POLL_SECONDS):
                raise _StoppedError
            now = time.monotonic()
            if progress and now - looked >= _PROGRESS_SECONDS:
                looked, reached = now, progress()
                if reached != last:
                    last, moved = reached, now
            if now - moved > limit:
                fix = "Fix: see why the workers do not run, or wait longer with --train_timeout_seconds"
                raise run.RunError(f"no step was done in train_timeout_seconds={limit:g}. {fix}")
        self._coordinator.join()

    def _int(self, value: int) -> Any:  # noqa: ANN401
        # a tensor: a Python number would be traced into a new graph for every value
        return self._tf.constant(value, self._tf.int64)
