"""Programs for users and developers: they set up a machine, run environments and answer questions about jobs."""
