"""The network benchmark: the speed of communication between a job's processes, and its effect on training."""
