"""Queries of an Alibaba Cloud account by name and by tag, without the engine and its state."""
