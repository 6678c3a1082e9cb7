"""The toolchain: every tool at its pinned version, from PATH, from its vendor, or built from verified Go modules."""

from tools.toolchain.acquire import Provided, allowed_sources, discard_sources, ensure, is_present, provide
from tools.toolchain.charts import upstream_manifests
from tools.toolchain.errors import ToolchainError

__all__ = [
    "Provided",
    "ToolchainError",
    "allowed_sources",
    "discard_sources",
    "ensure",
    "is_present",
    "provide",
    "upstream_manifests",
]
