"""Serves the package to the engine: platforms, jobs and services, for programs in any of Pulumi's languages."""

import sys

from pulumi.provider import main

from athanor.provider.package import package

main(package(), sys.argv[1:])
