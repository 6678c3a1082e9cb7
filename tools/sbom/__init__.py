"""Bills of materials (SBOM) of the images and of the programs that are built here: `make sbom`.

Runs in the tests' environment, which has the library that writes them; no other room imports this one.
"""
