"""Programs of a TensorFlow job's pods. Only framework.py and its importers need TensorFlow; none needs torch."""
