"""Run synchronous steps on a cluster within this process, and plain ones to compare: as a module, `DATA OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trainer.tf import framework, run
from trainer.tf.chief import Chief
from trainer.tf.cluster import Cluster
from trainer.tf.config import ParameterServerConfig
from trainer.tf.model import Batching, split_records, take_batch
from trainer.tf.stop import Stop, leave
from trainer.training import cifar

TASKS = {
    "chief": ("127.0.0.1:2222",),
    "worker": ("127.0.0.1:2223", "127.0.0.1:2224"),
    "ps": ("127.0.0.1:2225", "127.0.0.1:2226"),
}
STEPS = 5


def plain_steps(tf, config, shards: int):
    """Train without any cluster; with more than one shard only the first of them is used."""
    state = run.State.create(tf, config)
    records = tf.constant(cifar.load_records(config.data_dir, "train"))
    batching = Batching(batch_size=config.batch_size, shards=shards, seed=config.seed)
    losses = []
    for step in range(STEPS):
        number = tf.constant(step, tf.int64)
        images, labels = take_batch(tf, records, batching, step=number, shard=tf.constant(0, tf.int64))
        loss, gradients = state.network.loss_and_gradients(images, labels)
        state.optimizer.apply(gradients)
        losses.append(float(loss))
    return [variable.numpy() for variable in state.network.variables], losses


def farthest(some, others) -> float:
    return max(float(abs(one - other).max()) for one, other in zip(some, others, strict=True))


def main() -> None:
    data_dir, base = map(Path, sys.argv[1:])
    config = ParameterServerConfig(data_dir=data_dir, output_dir=base / "output", mode="sync", steps=STEPS)
    tf = framework.load(num_gpu=0, concurrent_calls=4)
    threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=6)
    _servers = [
        tf.distribute.Server(tf.train.ClusterSpec(TASKS), job_name=role, task_index=index, config=threads)
        for role in ("worker", "ps")
        for index in range(2)
    ]
    # TensorFlow's thread counts are fixed by now
    framework.load = lambda **_: tf
    chief = Chief(config, Cluster(tasks=TASKS, role="chief", index=0), Stop())
    begin = [variable.read_value().numpy() for variable in chief._state.network.variables]
    losses = [chief.synchronous_step(step) for step in range(STEPS)]
    together = [variable.read_value().numpy() for variable in chief._state.network.variables]
    with tf.device("/job:chief/replica:0/task:0/device:CPU:0"):
        alone, alone_losses = plain_steps(tf, config, shards=1)
        one_shard, _ = plain_steps(tf, config, shards=2)
    accuracy = run.finish(tf, config, chief._state, chief._events)
    exported = tf.saved_model.load(str(config.folders.run / run.SAVED_MODEL_FOLDER))
    images, _ = split_records(tf, tf.constant(cifar.load_records(data_dir, "test")))
    logits = exported.signatures["serving_default"](images=images)["logits"].numpy()
    results = {
        "moved": farthest(begin, together),
        "difference": farthest(together, alone),
        "loss_difference": max(abs(one - other) for one, other in zip(losses, alone_losses, strict=True)),
        "difference_to_one_shard": farthest(together, one_shard),
        "accuracy": accuracy,
        "exported_classes": logits.argmax(axis=1).tolist(),
    }
    (base / "found.json").write_text(json.dumps(results))
    leave(0)


if __name__ == "__main__":
    main()
