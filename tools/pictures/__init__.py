"""Draw the pictures of the README, as SVG, from the environment of `make up`."""
