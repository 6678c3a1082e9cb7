"""The hardware check: performance of a machine's GPUs with this trainer and this server, in minutes, offline."""
