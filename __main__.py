"""The Pulumi program: settings, platform, workloads, outputs."""

import pulumi

from infra.build import create_platform
from infra.config import load_settings
from infra.protection import declared_resources, protect_environment
from workloads.digits import declare_digits, export_digits

settings = load_settings()
declared = declared_resources()
platform = create_platform(settings)
digits = declare_digits(platform, settings.digits)
for name, value in platform.outputs().items():
    pulumi.export(name, value)
export_digits(digits)
protect_environment(settings, declared)
