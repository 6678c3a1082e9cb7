"""The catalogue of tools: version, source, vendor's download, and the stacks that need each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.toolchain.errors import ToolchainError
from tools.toolchain.monitoring_tools import monitoring_tools
from tools.toolchain.tool import (
    ALICLOUD_GRAPH,
    ENGINE_WITH_CLOUDS_GRAPH,
    GATEWAY_GRAPH,
    METRICS_ADAPTER_GRAPH,
    NODEJS_GRAPH,
    YAML_GRAPH,
    GoMain,
    Tool,
    Vendor,
    required,
)
from tools.toolchain.versions import Fit, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

PROVIDER_MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
SDK_MODULE = "github.com/pulumi/pulumi-kubernetes/sdk/v4"
VOLCANO_MODULE = "volcano.sh/volcano"
ALICLOUD_UPSTREAM_MODULE = "github.com/aliyun/terraform-provider-alicloud"
_PULUMI_SDK = "github.com/pulumi/pulumi/sdk/v3"
_KUBERNETES_MODULE = "k8s.io/kubernetes"
_PAUSE_VERSION = Version(3, 10, 0)
"""The pause image that Kubernetes 1.34 names by default; our pause behaves like that one."""
ENGINE_WITH_CLOUDS = "pulumi-with-clouds"
"""The engine with state and secrets in AWS, Azure, Google Cloud and Vault; our build of `pulumi` leaves them out."""
YAML_HOST = "pulumi-language-yaml"
"""Runs programs in YAML; the vendor's `pulumi` has it next to it."""
_YAML_MODULE = "github.com/pulumi/pulumi-yaml"
NODEJS_HOST = "pulumi-language-nodejs"
"""Runs programs in TypeScript and JavaScript; the vendor's `pulumi` has it next to it."""
METRICS_ADAPTER = "prometheus-adapter"
"""Serves metrics to autoscalers, on clusters whose stack asks for that."""
METRICS_ADAPTER_MODULE = "sigs.k8s.io/prometheus-adapter"
GATEWAY = "envoy-gateway"
"""Configures the proxies that let clients outside the cluster reach services, on clusters whose stack asks for that."""
GATEWAY_MODULE = "github.com/envoyproxy/gateway"
_ON_DEMAND = {ENGINE_WITH_CLOUDS, YAML_HOST, NODEJS_HOST, METRICS_ADAPTER, GATEWAY}
"""Belong to no stack: each is installed when somebody names it."""
ALICLOUD_PROVIDER = "pulumi-resource-alicloud"
_ALICLOUD_PROVIDER_VERSION = Version(3, 105, 0)
"""The release of pulumi-alicloud that wraps the upstream provider in our go.mod."""


def _kubernetes(
    name: str,
    fit: Fit = Fit.SAME_MINOR,
    version_words: tuple[str, ...] = ("--version",),
    *,
    has_recorded_digest: bool = False,
) -> Tool:
    version = required(_KUBERNETES_MODULE)
    url = f"https://dl.k8s.io/v{{version}}/bin/linux/{{arch}}/{name}"
    return Tool(
        name=name,
        version=version,
        mains={name: GoMain(package=f"{_KUBERNETES_MODULE}/cmd/{name}")},
        stamps={
            "k8s.io/component-base/version.gitVersion": f"v{version}",
            "k8s.io/component-base/version.gitMajor": str(version.major),
            "k8s.io/component-base/version.gitMinor": str(version.minor),
            "k8s.io/component-base/version.gitTreeState": "clean",
        },
        fit=fit,
        version_words=version_words,
        vendor=Vendor(url=url, checksums="" if has_recorded_digest else f"{url}.sha256"),
    )


def _volcano(name: str, command: str) -> Tool:
    version = required(VOLCANO_MODULE)
    return Tool(
        name=name,
        version=version,
        mains={name: GoMain(package=f"{VOLCANO_MODULE}/cmd/{command}")},
        stamps={"volcano.sh/volcano/pkg/version.Version": f"v{version}"},
        fit=Fit.NEVER,
    )


def _pulumi() -> Tool:
    version = required("github.com/pulumi/pulumi/pkg/v3")
    release = "https://github.com/pulumi/pulumi/releases/download/v{version}"
    return Tool(
        name="pulumi",
        version=version,
        mains={
            "pulumi": GoMain(package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"),
            "pulumi-language-python": GoMain(package="./pulumi-language-python"),
        },
        module_files={"pulumi-language-python-exec": (_PULUMI_SDK, "python/cmd/pulumi-language-python-exec")},
        stamps={f"{_PULUMI_SDK}/go/common/version.Version": f"v{version}"},
        fit=Fit.NOT_OLDER,
        version_words=("version",),
        vendor=Vendor(
            url=f"{release}/pulumi-v{{version}}-linux-{{short_arch}}.tar.gz",
            checksums=f"{release}/pulumi-{{version}}-checksums.txt",
        ),
    )


def _pulumi_with_clouds() -> Tool:
    version = required("github.com/pulumi/pulumi/pkg/v3", ENGINE_WITH_CLOUDS_GRAPH)
    return Tool(
        name=ENGINE_WITH_CLOUDS,
        version=version,
        mains={
            ENGINE_WITH_CLOUDS: GoMain(
                package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", graph=ENGINE_WITH_CLOUDS_GRAPH
            )
        },
        stamps={f"{_PULUMI_SDK}/go/common/version.Version": f"v{version}"},
        fit=Fit.NEVER,
    )


def _yaml_host() -> Tool:
    version = required(_YAML_MODULE, YAML_GRAPH)
    return Tool(
        name=YAML_HOST,
        version=version,
        mains={YAML_HOST: GoMain(package=f"{_YAML_MODULE}/cmd/{YAML_HOST}", graph=YAML_GRAPH)},
        stamps={f"{_YAML_MODULE}/pkg/version.Version": f"v{version}"},
        fit=Fit.NEVER,
    )


def _nodejs_host() -> Tool:
    version = required(_PULUMI_SDK, NODEJS_GRAPH)
    return Tool(
        name=NODEJS_HOST,
        version=version,
        mains={NODEJS_HOST: GoMain(package=f"./{NODEJS_HOST}", graph=NODEJS_GRAPH)},
        stamps={f"{_PULUMI_SDK}/go/common/version.Version": f"v{version}"},
        fit=Fit.NEVER,
    )


def _metrics_adapter() -> Tool:
    return Tool(
        name=METRICS_ADAPTER,
        version=required(METRICS_ADAPTER_MODULE, METRICS_ADAPTER_GRAPH),
        mains={"adapter": GoMain(package=f"{METRICS_ADAPTER_MODULE}/cmd/adapter", graph=METRICS_ADAPTER_GRAPH)},
        fit=Fit.NEVER,
    )


def _gateway() -> Tool:
    version = required(GATEWAY_MODULE, GATEWAY_GRAPH)
    return Tool(
        name=GATEWAY,
        version=version,
        mains={GATEWAY: GoMain(package=f"{GATEWAY_MODULE}/cmd/envoy-gateway", graph=GATEWAY_GRAPH)},
        stamps={f"{GATEWAY_MODULE}/internal/cmd/version.envoyGatewayVersion": f"v{version}"},
        fit=Fit.NEVER,
    )


def _kubernetes_provider() -> Tool:
    version = required(PROVIDER_MODULE)
    name = "pulumi-resource-kubernetes"
    return Tool(
        name=name,
        version=version,
        mains={name: GoMain(package=f"./{name}")},
        stamps={f"{PROVIDER_MODULE}/pkg/version.Version": str(version)},
        fit=Fit.NEVER,
        is_plugin=True,
    )


def _alicloud_provider() -> Tool:
    return Tool(
        name=ALICLOUD_PROVIDER,
        version=_ALICLOUD_PROVIDER_VERSION,
        mains={ALICLOUD_PROVIDER: GoMain(package=f"./{ALICLOUD_PROVIDER}", graph=ALICLOUD_GRAPH)},
        stamps={"athanor/toolchain/alicloud/mapping.Version": str(_ALICLOUD_PROVIDER_VERSION)},
        fit=Fit.NEVER,
        is_plugin=True,
    )


def _etcd() -> Tool:
    release = "https://github.com/etcd-io/etcd/releases/download/v{version}"
    return Tool(
        name="etcd",
        version=required("go.etcd.io/etcd/server/v3"),
        mains={"etcd": GoMain(package="go.etcd.io/etcd/server/v3")},
        vendor=Vendor(url=f"{release}/etcd-v{{version}}-linux-{{arch}}.tar.gz", checksums=f"{release}/SHA256SUMS"),
    )


def _coredns() -> Tool:
    url = "https://github.com/coredns/coredns/releases/download/v{version}/coredns_{version}_linux_{arch}.tgz"
    return Tool(
        name="coredns",
        version=required("github.com/coredns/coredns"),
        mains={"coredns": GoMain(package="./coredns")},
        fit=Fit.NEVER,
        vendor=Vendor(url=url, checksums=f"{url}.sha256"),
    )


def _tools() -> Iterable[Tool]:
    yield _pulumi()
    yield _pulumi_with_clouds()
    yield _yaml_host()
    yield _nodejs_host()
    yield _metrics_adapter()
    yield _gateway()
    yield _kubernetes_provider()
    yield _alicloud_provider()
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        yield _kubernetes(name)
    yield _kubernetes("kubelet", has_recorded_digest=True)
    yield _kubernetes("kubectl", Fit.NEAR_MINOR, ("version", "--client"), has_recorded_digest=True)
    yield _etcd()
    for name in ("kwok", "kwokctl"):
        # No vendor: kwok publishes no checksums with its programs.
        yield Tool(
            name=name,
            version=required("sigs.k8s.io/kwok"),
            mains={name: GoMain(package=f"sigs.k8s.io/kwok/cmd/{name}")},
        )
    yield _coredns()
    yield Tool(
        name="pause",
        version=_PAUSE_VERSION,
        mains={"pause": GoMain(package="./pause")},
        stamps={"main.version": str(_PAUSE_VERSION)},
        fit=Fit.NEVER,
    )
    yield _volcano("vc-scheduler", "scheduler")
    yield _volcano("vc-controller-manager", "controller-manager")
    yield from monitoring_tools()


TOOLS = {tool.name: tool for tool in _tools()}
"""Every tool by its name."""
_BY_PROGRAM = {program: tool for tool in TOOLS.values() for program in tool.programs}

_ENGINE = ("pulumi", "pulumi-resource-kubernetes", "kubectl")
STACKS = {
    "local": tuple(name for name in TOOLS if name != ALICLOUD_PROVIDER and name not in _ON_DEMAND),
    "existing-cluster": _ENGINE,
    "alicloud": (*_ENGINE, ALICLOUD_PROVIDER),
}
"""Stacks that `--stack` names: a cluster of our own on this machine, somebody else's, or one on Alibaba Cloud."""


def tool_of(program: str) -> Tool:
    """Return the tool that a program belongs to.

    Raises:
        ToolchainError: there is no such program.
    """
    try:
        return _BY_PROGRAM[program]
    except KeyError:
        known = ", ".join(sorted(_BY_PROGRAM))
        raise ToolchainError(f"there is no tool {program!r}. Fix: choose one of {known}") from None
