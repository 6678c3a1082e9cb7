"""Programs for users and developers: they prepare a machine, run environments and answer questions about jobs."""
