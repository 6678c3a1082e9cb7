"""Parallelism: division of a model over ranks, with its gradients and its state."""
