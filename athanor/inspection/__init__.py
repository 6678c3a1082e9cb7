"""What the objects of a cluster say about a job: why it does not run, and when it can start. Nothing here writes."""
