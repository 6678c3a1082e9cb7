"""The Pulumi program: settings, platform, workloads, outputs."""

from infra.config import load_settings
from infra.outputs import export_platform
from infra.platform import create_platform
from workloads.digits import declare_digits, export_digits

settings = load_settings()
platform = create_platform(settings)
digits = declare_digits(platform, settings.digits)
export_platform(platform)
export_digits(digits)
