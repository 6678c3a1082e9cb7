"""Container images: the trainer's, built from trainer/Dockerfile, and the platform's own, and how a node gets them."""
