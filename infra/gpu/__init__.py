"""GPUs in the cluster: sharing, the device plugin that announces them, and the exporter that measures them."""
