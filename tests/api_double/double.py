"""The double as one object: start it, point a provider at it, ask what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from tests.api_double import cs, tls
from tests.api_double.account import ACCESS_KEY_ID, ACCESS_KEY_SECRET, SETTLING_READS, Account
from tests.api_double.cs.kubernetes_side import KubernetesSide
from tests.api_double.dispatch import Dispatcher, RoaService
from tests.api_double.gate import Gate
from tests.api_double.server import LOOPBACK, LoopbackServer, administration
from tests.api_double.services import CS_VERSION, RPC_SERVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.api_double.protocol import Route

PRODUCTS = ("vpc", "ecs", "ram", "sts", "nas", "cs", "slb", "ess", "location", "bssopenapi")
"""What must not be looked for in the real cloud, in addition to what is served here."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


class ApiDouble:
    """A pretended Alibaba Cloud account that answers on loopback, over TLS.

    Args:
        folder: its certificates and account are kept here; a new double on the same folder continues where one ended.
        region: where its endpoints are.
        port: of the API; 0 takes a free one. A double that takes another's place needs the same.
        settling_reads: how often an object is seen in a passing state; with 0 all is done at once.
        kubeconfig: text of an administrator's kubeconfig of the real cluster behind every ACK cluster created
            here; without it they exist in the API alone.
        cluster_routes: the ROA operations of the container service.
    """

    def __init__(  # noqa: PLR0913 - each is one property of the account
        self,
        folder: Path,
        *,
        region: str = "cn-hangzhou",
        port: int = 0,
        settling_reads: int = SETTLING_READS,
        kubeconfig: str | None = None,
        cluster_routes: Sequence[Route] = cs.ROUTES,
    ) -> None:
        self.region = region
        self.account = Account(folder / "account.json", settling_reads=settling_reads)
        if kubeconfig is not None:
            self.account.kubernetes = KubernetesSide(self.account, kubeconfig)
        services = {**RPC_SERVICES, CS_VERSION: RoaService("cs", cluster_routes)}
        self._dispatcher = Dispatcher(self.account, services, region)
        self.faults = self._dispatcher.faults
        self.log = self._dispatcher.log
        self.gate = Gate()
        """Which hosts were called by name, apart from the endpoints."""
        self._folder = folder
        self._api = LoopbackServer(self._dispatcher.answer, port=port, tls=tls.server_context(folder), gate=self.gate)
        self._administration = LoopbackServer(administration(self._dispatcher, self.account, self.gate))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Answer from now on."""
        self.account.kubernetes.start()
        self._api.start()
        self._administration.start()

    def stop(self) -> None:
        """End every connection and stop; what exists stays in the folder."""
        self.faults.clear()
        self._api.stop()
        self._administration.stop()
        self.account.kubernetes.close()

    @property
    def address(self) -> str:
        """Host and port of the API (HTTPS, all products)."""
        return self._api.address

    @property
    def administration_url(self) -> str:
        """Where another process reads the log and sets faults; see `server.administration`."""
        return f"http://{self._administration.address}"

    def environment(self) -> dict[str, str]:
        """Return what the provider's process needs in its environment to speak to this double and nobody else."""
        endpoints: Mapping[str, str] = {f"{product.upper()}_ENDPOINT": self.address for product in PRODUCTS}
        # One of the provider's clients compares hosts with ports. The cluster that stands behind is reached as ever.
        direct = [LOOPBACK, self.address]
        direct.append(urlsplit(self.account.kubernetes.server).hostname or "")
        return {
            # the provider reads both names: its general client the first, older clients the second
            **{f"ALIBABA_CLOUD_ENDPOINT_{name.removesuffix('_ENDPOINT')}": at for name, at in endpoints.items()},
            **endpoints,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": ACCESS_KEY_SECRET,
            # without it the provider asks the billing service which of the two sites the account belongs to
            "ALIBABA_CLOUD_ACCOUNT_TYPE": "Domestic",
            "SSL_CERT_FILE": str(tls.trusted_certificates(self._folder)),
            # what has its host written into the provider meets the double there; what is for others ends here
            **dict.fromkeys(_PROXIES, f"http://{self.address}"),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(dict.fromkeys(filter(None, direct)))),
        }

    def inventory(self) -> dict[str, list[str]]:
        """Return the ids of what exists now, by kind; empty for an empty account."""
        with self.account.lock:
            return self.account.inventory()

    def mistakes(self) -> list[str]:
        """Return the stack traces of what went wrong in the double itself."""
        return list(self._dispatcher.mistakes)

    def unknown_operations(self) -> list[str]:
        """Return the operations that were asked for and are not served."""
        return sorted(set(self._dispatcher.unknown))
