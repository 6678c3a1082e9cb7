"""Trains with parameter servers: `TF_CONFIG=… python -m trainer.tf.parameter_server --data_dir … --output_dir …`.

One program for every role. `worker` and `ps` only lend themselves to the chief, which runs the loop; they end when the
run's result is there. `evaluator` follows the checkpoints.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.tf import cluster as clusters
from trainer.tf.chief import Chief
from trainer.tf.config import ParameterServerConfig
from trainer.tf.evaluator import evaluate
from trainer.tf.framework import DeviceError
from trainer.tf.run import RunError, open_log, show_messages
from trainer.tf.server import serve
from trainer.tf.stop import Stop, leave
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("trainer")

PROGRAM = "trainer.tf.parameter_server"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this task of the job; 0 when the run is finished, 1 after a failure, 143 after a stop on request."""
    config = command_line.parse(ParameterServerConfig, PROGRAM, arguments)
    show_messages()
    stop = Stop()
    try:
        cluster = _require_roles(clusters.from_environment())
        return _run(config, cluster, stop)
    except (clusters.ClusterError, RunError, DataError, DeviceError) as error:
        logger.error("%s: %s", PROGRAM, error)  # noqa: TRY400  no bug of ours
        return 1
    except Exception:
        # leaving by `leave` would not show it
        logger.exception("%s failed", PROGRAM)
        return 1


def _run(config: ParameterServerConfig, cluster: clusters.Cluster, stop: Stop) -> int:
    if config.folders.result.exists():
        open_log(config, cluster.rank).write("already_finished", step=config.steps, role=cluster.name)
        return 0
    if cluster.role == "chief":
        return Chief(config, cluster, stop).train()
    if cluster.role == "evaluator":
        return evaluate(config, cluster.rank, stop)
    return serve(config, cluster, stop)


def _require_roles(cluster: clusters.Cluster | None) -> clusters.Cluster:
    """Refuse a cluster that cannot train with parameter servers."""
    if cluster is None:
        fix = "Fix: let the job set it, or train in one process with python -m trainer.tf.multi_worker"
        raise clusters.ClusterError(f"{clusters.VARIABLE} is not set: parameter servers need a cluster. {fix}")
    for role, most in (("chief", 1), ("worker", None), ("ps", None)):
        present = cluster.sizes.get(role, 0)
        if present < 1 or (most is not None and present > most):
            limit = "exactly 1" if most else "at least 1"
            why = "; it runs the training loop, a worker cannot stand in for it" if role == "chief" else ""
            problem = f"{clusters.VARIABLE}: {present} tasks of role {role}, must be {limit}{why}"
            raise clusters.ClusterError(f"{problem}. Fix: correct that role's list of addresses in {clusters.VARIABLE}")
    return cluster


if __name__ == "__main__":
    leave(main())
