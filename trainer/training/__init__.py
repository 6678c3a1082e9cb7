"""Code that PyTorch and TensorFlow training share: data, events, metrics, folders, signals. Imports neither."""
