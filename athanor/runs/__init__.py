"""What is known of runs and done to them: their stacks, and `athanor runs`, `logs` and `delete`."""
