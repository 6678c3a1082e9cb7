"""Trains with mirrored variables: `python -m trainer.tf.multi_worker --data_dir … --output_dir …`.

With TF_CONFIG all its workers train together (MultiWorkerMirroredStrategy); without, this process trains alone on all
its GPUs (MirroredStrategy). Every replica has all weights; each step adds up the gradients of all of them.
A worker that is lost ends the others; started again together, they resume from the latest checkpoint.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from trainer.common import command_line
from trainer.tf import cluster as clusters
from trainer.tf import framework, run
from trainer.tf.config import RunConfig
from trainer.tf.framework import DeviceError
from trainer.tf.metrics import RunMetrics
from trainer.tf.model import Batching, take_batch
from trainer.tf.run import RunError, show_messages
from trainer.tf.stop import Stop, leave
from trainer.training import cifar
from trainer.training.digits import DataError
from trainer.training.signals import STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("trainer")

PROGRAM = "trainer.tf.multi_worker"
_ALONE = clusters.Cluster(tasks={"worker": ("localhost:0",)}, role="worker", index=0)


class Worker:
    """One process of the training; all of them do the same, and the first one also writes."""

    def __init__(self, config: RunConfig, cluster: clusters.Cluster | None, stop: Stop) -> None:
        """Meet the other workers.

        Raises:
            ClusterError: the names of the others do not resolve in time.
            RunError: settings that do not fit the run or the number of workers.
            DataError: the data set cannot be used.
            DeviceError: see `framework.load`.
        """
        self._config = config
        self._stop = stop
        self._cluster = cluster or _ALONE
        self._tf = framework.load(num_gpu=config.num_gpu)
        self._gpus = framework.gpus(self._tf)
        replicas = sum(self._cluster.sizes.values()) * max(1, self._gpus)
        self._batching = Batching(batch_size=config.batch_size, shards=replicas, seed=config.seed)
        if self._is_main:
            run.begin(config, shards=replicas)
        self._records = cifar.load_records(config.data_dir, "train")
        # only now: a run that is refused leaves nothing behind
        self._events = run.open_log(config, self._cluster.rank)
        self._metrics = RunMetrics(config, rank=self._cluster.rank)
        if cluster:
            clusters.wait_for_names(cluster, ("chief", "worker"), seconds=config.init_timeout_seconds)
        self._strategy = self._meet() if cluster else self._mirrored()
        # TensorFlow took SIGTERM for its notice of preemption, which nobody here asks for
        stop.take_signals()
        with self._strategy.scope():
            self._state = run.State.create(self._tf, config, self._strategy)
        self._checkpoints = run.Checkpoints(self._tf, config, self._state)
        # an eager tensor: a function refers to it, while a numpy array would be copied into its graph
        self._on_device = self._tf.constant(self._records)
        self._step = self._tf.function(self._distributed_step)

    @property
    def _is_main(self) -> bool:
        return self._cluster.rank == 0

    def train(self) -> int:
        """Train to the last step and publish the result; return the exit status.

        Raises:
            RunError: another worker was lost, or the loss is not finite.
        """
        errors = self._tf.errors
        try:
            return self._train()
        except (errors.UnavailableError, errors.AbortedError, errors.CancelledError) as error:
            step = self._state.current_step
            self._events.write("failed", step=step, error=type(error).__name__)
            fix = "Fix: start all workers again; they resume from the latest checkpoint"
            raise RunError(f"{self._cluster.name}: another worker was lost at step {step}. {fix}") from error

    def _train(self) -> int:
        config = self._config
        # all take the first one's word: a shared volume may show them different newest checkpoints for a moment
        step = self._sum(self._checkpoints.latest_step() if self._is_main else 0)
        self._metrics.begin(step, saved_at=self._checkpoints.latest_time())
        self._checkpoints.restore(step)
        self._events.write("resumed" if step else "started", step=step, world=self._cluster.sizes)
        self._stop.remember_only()
        while step < config.steps:
            until = min(config.steps, step + config.checkpoint_interval_steps)
            losses: list[float] = []
            stopping = False
            while step < until and not stopping:
                loss, stops = self._step(self._int(step), self._int(int(self._stop.requested)))
                losses.append(float(loss))
                step += 1
                self._metrics.on_progress(step, losses[-1])
                # the same sum on all: all leave after the same step, nobody waits for one who left
                stopping = int(stops) > 0
            mean = sum(losses) / len(losses)
            run.require_finite(mean, step, remember_in=config.folders.run if self._is_main else None)
            if self._is_main:
                with self._metrics.saving():
                    self._checkpoints.save()
            self._events.write("step", step=step, loss=mean)
            if stopping and step < config.steps:
                self._events.write("stopped", step=step)
                return STOPPED_EXIT_STATUS
        if self._is_main:
            run.finish(self._tf, config, self._state, self._events, mode="mirrored", world=self._cluster.sizes)
        # nobody leaves before the first one is done: the coordination service would report the others as lost
        self._sum(0)
        self._metrics.finish(self._stop)
        return 0

    def _mirrored(self) -> Any:  # noqa: ANN401
        # empty here; TensorFlow takes it for JSON all the same
        os.environ.pop(clusters.VARIABLE, None)
        devices = [f"/gpu:{number}" for number in range(self._gpus)] or ["/cpu:0"]
        return self._tf.distribute.MirroredStrategy(devices)

    def _meet(self) -> Any:  # noqa: ANN401
        """Connect to the others; the process ends when they do not come, since TensorFlow would wait on."""
        tf, seconds = self._tf, self._config.init_timeout_seconds

        def give_up() -> None:
            fix = "Fix: see why their pods do not run, or wait longer with --init_timeout_seconds"
            message = f"{self._cluster.name}: not all workers met within init_timeout_seconds={seconds:g}. {fix}"
            logger.error("%s: %s", PROGRAM, message)
            leave(1)

        patience = threading.Timer(seconds, give_up)
        patience.daemon = True
        patience.start()
        try:
            return tf.distribute.MultiWorkerMirroredStrategy(
                cluster_resolver=tf.distribute.cluster_resolver.SimpleClusterResolver(
                    tf.train.ClusterSpec(self._cluster.training_tasks),
                    task_type=self._cluster.role,
                    task_id=self._cluster.index,
                    num_accelerators={"GPU": self._gpus},
                    rpc_layer="grpc",
                )
            )
        finally:
            patience.cancel()

    def _distributed_step(self, step: Any, stop: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """Run one step on every replica; return its mean loss and how many replicas were asked to stop."""
        reduce = self._tf.distribute.ReduceOp
        losses, stops = self._strategy.run(self._replica_step, args=(step, stop))
        return self._strategy.reduce(reduce.MEAN, losses, axis=None), self._strategy.reduce(
            reduce.SUM, stops, axis=None
        )

    def _replica_step(self, step: Any, stop: Any) -> tuple[Any, Any]:  # noqa: ANN401
        tf = self._tf
        context = tf.distribute.get_replica_context()
        shard = tf.cast(context.replica_id_in_sync_group, tf.int64)
        images, labels = take_batch(tf, self._on_device, self._batching, step=step, shard=shard)
        loss, gradients = self._state.network.loss_and_gradients(images, labels)
        self._state.optimizer.apply_mirrored(gradients)
        self._state.step.assign_add(1)
        return loss, stop

    def _sum(self, value: int) -> int:
        """Return the sum of all workers' values, on all of them."""
        per_worker = self._strategy.num_replicas_in_sync // sum(self._cluster.sizes.values())

        def add(number: Any) -> Any:  # noqa: ANN401
            values = self._strategy.run(lambda: self._tf.identity(number))
            return self._strategy.reduce(self._tf.distribute.ReduceOp.SUM, values, axis=None)

        return int(self._tf.function(add)(self._int(value))) // per_worker

    def _int(self, value: int) -> Any:  # noqa: ANN401
        return self._tf.constant(value, self._tf.int64)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this worker; 0 when the run is finished, 1 after a failure, 143 after a stop on request."""
    config = command_line.parse(RunConfig, PROGRAM, arguments)
    show_messages()
    stop = Stop()
    try:
        cluster = _require_roles(clusters.from_environment())
        if config.folders.result.exists():
            run.open_log(config, (cluster or _ALONE).rank).write("already_finished", step=config.steps)
            return 0
        return Worker(config, cluster, stop).train()
    except (clusters.ClusterError, RunError, DataError, DeviceError) as error:
        logger.error("%s: %s", PROGRAM, error)  # noqa: TRY400  no bug of ours
        return 1
    except Exception:
        # leaving by `leave` would not show it
        logger.exception("%s failed", PROGRAM)
        return 1


def _require_roles(cluster: clusters.Cluster | None) -> clusters.Cluster | None:
    """Refuse roles that nobody would wait for."""
    unwanted = sorted(set(cluster.tasks) - {"chief", "worker"}) if cluster else []
    if unwanted:
        fix = "Fix: only chief and worker, or run trainer.tf.parameter_server"
        raise clusters.ClusterError(f"{clusters.VARIABLE}: role {unwanted[0]!r} cannot train mirrored. {fix}")
    return cluster


if __name__ == "__main__":
    leave(main())
