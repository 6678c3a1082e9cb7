"""A stand-in for Alibaba Cloud's API on this machine, good enough for the real provider."""
