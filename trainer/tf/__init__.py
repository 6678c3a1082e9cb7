"""What the pods of a TensorFlow job run. Only framework.py and what imports it need TensorFlow; nothing needs torch."""
