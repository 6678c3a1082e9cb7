"""The pictures of the README, drawn as SVG from the environment of `make up`."""
