"""What trainer/Dockerfile runs while the image is built; only the standard library is there then."""
