"""Open Inference Protocol v2 and its binary tensor extension: bodies to arrays and back, no I/O."""
