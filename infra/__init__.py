"""What the platform offers: cluster, scheduling, storage, images, and the outputs other teams read."""
