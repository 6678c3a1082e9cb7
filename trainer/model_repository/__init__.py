"""The model repository, which training writes and a server reads: its layout, and TorchScript files."""
