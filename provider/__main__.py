"""Serve the package to the engine: platforms, jobs and services, for programs in any language of Pulumi."""

import sys

from pulumi.provider import main

from athanor.provider.package import package

main(package(), sys.argv[1:])
