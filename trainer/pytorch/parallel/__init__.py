"""How a model is divided over ranks, and what follows for its gradients and its state."""
