"""The platform: cluster, scheduling, storage, images, and the outputs that other teams read."""
