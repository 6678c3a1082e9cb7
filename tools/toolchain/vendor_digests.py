"""SHA-256 of vendors' files, by address: a vendor's own checksum comes from the same server as its file.

A file with a digest here must match it. For some files no independent source of a digest is known: catalogue.py names
them by their `checksums`, and they must match the digest that their vendor publishes. Nothing else is taken. Sources:
Kubespray's checksums.yml at 46dbdd3 (kubelet, kubectl), and for the archives the digests that more than five public
projects pin alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_KUBERNETES = "https://dl.k8s.io/v1.34.4/bin/linux"
_PROMETHEUS = "https://github.com/prometheus/prometheus/releases/download/v3.14.0/prometheus-3.14.0.linux"
_NODE_EXPORTER = "https://github.com/prometheus/node_exporter/releases/download/v1.12.1/node_exporter-1.12.1.linux"

DIGESTS: Mapping[str, str] = {
    f"{_KUBERNETES}/amd64/kubectl": "d50c359d95e0841eaad08ddc27c7be37cba8fdccfba5c8e2ded65e121ff112db",
    f"{_KUBERNETES}/arm64/kubectl": "5b982c0644ab1e27780246b9085a5886651b4a7ed86243acbb2bacc1bea01dda",
    f"{_KUBERNETES}/amd64/kubelet": "03b8fea715a7ef82eeaf518dee34c72670c57cc7bc40dc1320c04fbf4f15172f",
    f"{_KUBERNETES}/arm64/kubelet": "c78845473c434ee85a2444eeab87f8b20f524e3ab6854a078f79468f44aad8f5",
    f"{_PROMETHEUS}-amd64.tar.gz": "f665c6da19eb7ba399c915d30c7d9793c9b417bf8a749b504bc470678631478d",
    f"{_PROMETHEUS}-arm64.tar.gz": "077f3781ab7245dc04c9a3c9b78ba120fc8e41aa0dc97489b0af67247e50ba83",
    f"{_NODE_EXPORTER}-amd64.tar.gz": "b51d8a76aa2a9156a55d501aca6276fae09e262259a5e4e831d2c2222f084e63",
    f"{_NODE_EXPORTER}-arm64.tar.gz": "ad35b605f9954b9f1ffddf5ba054bdc5a98d790b9eae5291e1eeb83f1ecbd0e7",
}
"""Lower-case hex by the address that `Vendor.url` has for a version and an architecture."""
