"""Code that every image contains: files, checks of settings, log lines, the container's CPU limit."""
