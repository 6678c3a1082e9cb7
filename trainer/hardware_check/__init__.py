"""What a machine's GPUs do with this trainer and this server, measured in minutes and without a network."""
