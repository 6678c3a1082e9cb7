"""The roles `worker` and `ps`: a TensorFlow server that the chief uses, until the run's result is there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainer.tf import framework, run
from trainer.tf.cluster import wait_for_names

if TYPE_CHECKING:
    from trainer.tf.cluster import Cluster
    from trainer.tf.config import ParameterServerConfig
    from trainer.tf.stop import Stop

logger = logging.getLogger("trainer")

_LOOK_SECONDS = 0.5


def serve(config: ParameterServerConfig, cluster: Cluster, stop: Stop) -> int:
    """Serve until the chief has written the result; TensorFlow's own `Server.join` never returns.

    A stop signal ends the process at once: nothing here is worth saving, the chief has the checkpoints.

    Raises:
        ClusterError: the names of those it will be connected to do not resolve in time.
        DeviceError: see `framework.load`.
    """
    # a worker fetches weights from every ps; the chief is who connects them, once all can be reached
    logger.info("%s waits for the names of chief and parameter servers", cluster.name)
    wait_for_names(cluster, ("chief", "ps"), seconds=config.init_timeout_seconds)
    workers = cluster.sizes["worker"]
    num_gpu = config.num_gpu if cluster.role == "worker" else 0
    tf = framework.load(num_gpu=num_gpu, one_gpu=True, concurrent_calls=workers)
    # only now: a task that is refused leaves nothing behind
    events = run.open_log(config, cluster.rank)
    compute, concurrent = framework.thread_counts(workers)
    _server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster.training_tasks),
        job_name=cluster.role,
        task_index=cluster.index,
        protocol="grpc",
        config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=compute, inter_op_parallelism_threads=concurrent),
    )
    events.write("serving", step=0, role=cluster.name)
    logger.info("%s serves at %s", cluster.name, cluster.tasks[cluster.role][cluster.index])
    while not config.folders.result.exists():
        stop.wait(_LOOK_SECONDS)
    logger.info("%s ends: the run is finished", cluster.name)
    events.write("finished", step=config.steps, role=cluster.name)
    return 0
