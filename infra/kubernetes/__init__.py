"""What Kubernetes itself defines, whatever this project runs on it."""
