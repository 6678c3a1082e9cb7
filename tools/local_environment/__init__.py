"""The local environment: `make up`, and the commands that stop, inspect and remove what it created."""
