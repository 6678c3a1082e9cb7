"""What an Alibaba Cloud account has: asked by name and by tag, without the engine and its state."""
