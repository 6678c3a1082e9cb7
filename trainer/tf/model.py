"""A small convolutional network, its gradient descent, and the samples of each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.training import cifar

_CHANNELS = (16, 32)
_SIDE = cifar.IMAGE_SHAPE[1] // 2 ** len(_CHANNELS)


class Network:
    """Two convolutions and a dense layer: images float32 [N, 32, 32, 3] with values 0..1 to logits [N, 10].

    Made within a strategy's scope, its variables lie where the strategy wants them.
    """

    def __init__(self, tf: Any, *, seed: int) -> None:  # noqa: ANN401  TensorFlow has no types
        self._tf = tf
        shapes = {
            "conv1": (3, 3, cifar.IMAGE_SHAPE[0], _CHANNELS[0]),
            "conv2": (3, 3, *_CHANNELS),
            "dense": (_SIDE * _SIDE * _CHANNELS[1], cifar.NUM_CLASSES),
        }
        self.module = tf.Module(name="network")
        for number, (name, shape) in enumerate(shapes.items()):
            inputs = 1
            for size in shape[:-1]:
                inputs *= size
            # stateless: the same weights on every task and in every restart. He et al. 2015, formula 10
            values = tf.random.stateless_normal(shape, seed=(seed, number), stddev=(2 / inputs) ** 0.5)
            setattr(self.module, f"{name}_weights", tf.Variable(values, name=f"{name}_weights"))
            setattr(self.module, f"{name}_bias", tf.Variable(tf.zeros(shape[-1:]), name=f"{name}_bias"))
        names = [f"{name}_{part}" for name in shapes for part in ("weights", "bias")]
        self.variables: list[Any] = [getattr(self.module, name) for name in names]

    def logits(self, images: Any) -> Any:  # noqa: ANN401  tensors
        """Return the logits of images."""
        tf = self._tf
        weights1, bias1, weights2, bias2, dense, bias3 = self.variables
        hidden = tf.nn.relu(tf.nn.conv2d(images, weights1, strides=2, padding="SAME") + bias1)
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weights2, strides=2, padding="SAME") + bias2)
        return tf.matmul(tf.reshape(hidden, (-1, dense.shape[0])), dense) + bias3

    def loss_and_gradients(self, images: Any, labels: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401  tensors
        """Return the mean cross entropy over the samples and its gradient for each variable."""
        tf = self._tf
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.logits(images))
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, self.variables)


class Momentum:
    """Gradient descent with momentum; the velocities are stored with the variables they belong to."""

    def __init__(
        self,
        tf: Any,  # noqa: ANN401  TensorFlow has no types
        variables: list[Any],
        *,
        strategy: Any = None,  # noqa: ANN401
        learning_rate: float,
        momentum: float,
    ) -> None:
        self._tf = tf
        self._variables = variables
        self._learning_rate = learning_rate
        self._momentum = momentum
        self.module = tf.Module(name="momentum")
        self.velocities: list[Any] = []
        for variable in variables:
            with (strategy or tf.distribute.get_strategy()).extended.colocate_vars_with(variable):
                self.velocities.append(tf.Variable(tf.zeros(variable.shape), trainable=False, name="velocity"))
        self.module.velocities = self.velocities

    def apply(self, gradients: list[Any]) -> None:
        """Update variables that live once; only the gradients travel to where a variable is."""
        for variable, velocity, gradient in zip(self._variables, self.velocities, gradients, strict=True):
            self._update(variable, velocity, gradient)

    def apply_mirrored(self, gradients: list[Any]) -> None:
        """Update variables of which every replica has a copy: with the mean of all replicas' gradients, in each."""
        tf = self._tf
        context = tf.distribute.get_replica_context()
        mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)

        def update(strategy: Any, gradients: list[Any]) -> None:  # noqa: ANN401
            for variable, velocity, gradient in zip(self._variables, self.velocities, gradients, strict=True):
                strategy.extended.update(variable, self._update, args=(velocity, gradient))

        context.merge_call(update, args=(mean,))

    def _update(self, variable: Any, velocity: Any, gradient: Any) -> None:  # noqa: ANN401
        # one operation at the variable's place: reading and assigning would send every weight both ways
        self._tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=velocity.handle,
            lr=self._learning_rate,
            grad=gradient,
            momentum=self._momentum,
            use_locking=True,
        )


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Selection and distribution of the samples of a step."""

    batch_size: int
    """Samples of one step."""
    shards: int
    """Equal parts of a step's batch; divides batch_size."""
    seed: int


def take_batch(tf: Any, records: Any, batching: Batching, *, step: Any, shard: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return a shard of a step's batch: images float32 [batch_size / shards, 32, 32, 3] and labels int32.

    A function of its arguments alone: any worker that computes a shard, also after a failure, takes the same samples,
    and any number of shards make up the same batch. Each epoch has an order of its own; what does not fill a last
    batch is left out of that epoch.

    Args:
        tf: TensorFlow.
        records: all samples, uint8 [N, 3073].
        batching: how they are shared.
        step: number of the step, int64 scalar.
        shard: which part of its batch, int64 scalar.
    """
    total = tf.shape(records, out_type=tf.int64)[0]
    steps_per_epoch = total // batching.batch_size
    size = batching.batch_size // batching.shards
    first = step % steps_per_epoch * batching.batch_size + shard * size
    order_seed = tf.stack([tf.constant(batching.seed, tf.int64), step // steps_per_epoch])
    indices = tf.random.experimental.index_shuffle(tf.range(size, dtype=tf.int64) + first, order_seed, total - 1)
    return split_records(tf, tf.gather(records, indices))


def split_records(tf: Any, records: Any) -> tuple[Any, Any]:  # noqa: ANN401  uint8 [N, 3073]
    """Return images float32 [N, 32, 32, 3] with values 0..1 and labels int32 [N]."""
    # cast first: on most CPUs TensorFlow complains of every graph that transposes bytes
    planes = tf.cast(tf.reshape(records[:, 1:], (-1, *cifar.IMAGE_SHAPE)), tf.float32) / 255
    return tf.transpose(planes, (0, 2, 3, 1)), tf.cast(records[:, 0], tf.int32)


def accuracy(tf: Any, network: Network, records: Any, *, samples_per_call: int = 1000) -> float:  # noqa: ANN401
    """Return the share of records classified correctly, 0 to 1."""
    correct = 0
    for first in range(0, len(records), samples_per_call):
        images, labels = split_records(tf, tf.constant(records[first : first + samples_per_call]))
        predicted = tf.argmax(network.logits(images), axis=1, output_type=tf.int32)
        correct += int(tf.reduce_sum(tf.cast(predicted == labels, tf.int32)))
    return correct / len(records)
