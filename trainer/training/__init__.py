"""What PyTorch and TensorFlow training share: data, events, metrics, folders and stop signals. Imports neither."""
