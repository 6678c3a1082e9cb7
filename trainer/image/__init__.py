"""Programs of trainer/Dockerfile, which run while the image is built; only the standard library is there then."""
