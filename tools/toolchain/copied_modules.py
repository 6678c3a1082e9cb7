"""Modules that are compiled from a modified copy, with parts left out or changed.

Compiling takes most of a first start, and a program's imports decide how long: one call that is never used here can
pull in a cloud's whole SDK. Each copy is of a module that go.sum verified: the graph's folder for it has an `upstream`
with its pin. Our files in that folder are added, and replace upstream's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from tools.toolchain.errors import ToolchainError
from tools.toolchain.tool import GATEWAY_GRAPH, METRICS_ADAPTER_GRAPH, NODEJS_GRAPH, PLATFORM_GRAPH

if TYPE_CHECKING:
    from pathlib import Path

    from tools.toolchain.go_command import Go

_TESTS = "*_test.go"


@dataclass(frozen=True, kw_only=True)
class CopiedModule:
    """A module, or folders of it, and what is different in the copy."""

    folder: str
    """Folder of the copy, in the graph's folder; go.mod replaces the module by it."""
    module: str
    parts: Mapping[str, str] = field(default_factory=lambda: {".": "."})
    """Parts to copy: folders of the module to folders of the copy."""
    without: tuple[str, ...] = ()
    """Patterns of files that are left out, with `/` between folders of the module."""
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Replacements by file. Each must be there: else upstream has changed, and so must this table."""


_ENGINE = CopiedModule(
    folder="engine",
    module="github.com/pulumi/pulumi/pkg/v3",
    # Clients of AWS, Azure, Google Cloud and Vault: for state and secrets there, and for `pulumi logs`.
    without=(
        "authhelpers/gcpauth.go",
        "operations/operations_aws.go",
        "operations/operations_cloud_aws.go",
        "operations/operations_gcp.go",
        "*/testdata",
    ),
    changes={
        "backend/diy/backend.go": {
            '_ "gocloud.dev/blob/azureblob"': "",
            '_ "gocloud.dev/blob/s3blob"': "",
            '"gocloud.dev/blob/gcsblob"': 'gcsblob "github.com/pulumi/pulumi/pkg/v3/absent"',
        },
        "secrets/cloud/manager.go": {
            '_ "gocloud.dev/secrets/awskms"': "",
            '_ "gocloud.dev/secrets/azurekeyvault"': "",
            '_ "gocloud.dev/secrets/hashivault"': "",
            '"gocloud.dev/secrets/gcpkms"': 'gcpkms "github.com/pulumi/pulumi/pkg/v3/absent"',
            '"google.golang.org/api/cloudkms/v1"': 'cloudkms "github.com/pulumi/pulumi/pkg/v3/absent"',
        },
        # Only who binds a package's schema needs the schema of schemas; each start of the engine and of a provider
        # compiled it.
        "codegen/schema/bind.go": {
            '\t"strings"\n': '\t"strings"\n\t"sync"\n',
            "func init() {\n\tcompiler :=": "var loadMetaSchema = sync.OnceFunc(func() {\n\tcompiler :=",
            'compiler.MustCompile("blob://pulumi.json")\n}': 'compiler.MustCompile("blob://pulumi.json")\n})',
            "if err = MetaSchema.Validate(raw)": "loadMetaSchema()\n\tif err = MetaSchema.Validate(raw)",
        },
    },
)


def _password_strength(owner: str) -> CopiedModule:
    """Return zxcvbn, with which `pulumi config set` and `esc` tell a secret from a text.

    The engine has two copies of it, which read their word lists whenever it starts: two thirds of its 0.3 CPU seconds.
    Their matching reads the lists itself where they are not there.
    """
    return CopiedModule(
        folder=f"zxcvbn-{owner}",
        module=f"github.com/{owner}/zxcvbn-go",
        without=("testapp", "fuzz"),
        changes={
            "frequency/frequency.go": {"func init() {": "// Load reads the lists.\nfunc Load() {"},
            "matching/matching.go": {
                "func init() {\n\tloadFrequencyList()\n}\n": "",
                "for n, list := range frequency.Lists {": (
                    "frequency.Load()\n\tfor n, list := range frequency.Lists {"
                ),
            },
        },
    )


_VIRTUALENV_OF_CALL = "host = host.withVirtualenvOf(req.GetInfo())"
_WITH_VIRTUALENV = """
func (host *pythonLanguageHost) withVirtualenvOf(info *pulumirpc.ProgramInfo) *pythonLanguageHost {
	virtualenv := info.GetOptions().GetFields()["virtualenv"].GetStringValue()
	if virtualenv == "" {
		return host
	}
	changed := *host
	changed.virtualenv = virtualenv
	changed.virtualenvPath = resolveVirtualEnvironmentPath(info.GetRootDirectory(), virtualenv)
	return &changed
}
"""
_FIRST_LINES_OF_CALLS = (
    "// Prepare the virtual environment (if needed).",
    "args := []string{host.exec}",
    "closer, stdout, stderr, err := rpcutil.MakeInstallDependenciesStreams(",
    'cmdArgs := []string{"-m", "pip", "list"',
)
_OR_WITHOUT = "\n\t} else {\n\t\tcmd, err = python.Command(ctx, args...)"
_IN_VIRTUALENV = 'cmd = python.VirtualEnvCommand(virtualenv, "python", args...)'
_OF_PLUGIN = "\n\t} else {\n\t\tvar err error\n\t\tcmd, err = python.Command(server.Context(), args...)"
_PLACE_OF_FUNCTION = "func resolveVirtualEnvironmentPath("


def _command(context: str) -> str:
    return f'exec.CommandContext({context}, filepath.Join(virtualenv, "bin", "python"), args...)'


_LANGUAGE_HOST = CopiedModule(
    folder="pulumi-language-python",
    module="github.com/pulumi/pulumi/sdk/v3",
    parts={"python/cmd/pulumi-language-python": ".", "python": "python"},
    without=("python/cmd", "python/dist", "python/lib"),
    # Compiled against the engine's release of the SDK instead of its own, with which it shares little: four lines are
    # where the two differ. The others are for `virtualenv` in a project's Pulumi.yaml: the engine sends it with each
    # call, and sent it as a flag at the time of this host. Without it, other teams' projects run with our packages.
    changes={
        "main.go": {
            **{line: f"{_VIRTUALENV_OF_CALL}\n\t{line}" for line in _FIRST_LINES_OF_CALLS},
            _PLACE_OF_FUNCTION: f"{_WITH_VIRTUALENV}\n{_PLACE_OF_FUNCTION}",
            # The program ends with the call, as one without a virtualenv does: that of a killed engine would live on.
            f"{_IN_VIRTUALENV}{_OR_WITHOUT}": f"cmd = {_command('ctx')}{_OR_WITHOUT}",
            f"{_IN_VIRTUALENV}{_OF_PLUGIN}": f"cmd = {_command('server.Context()')}{_OF_PLUGIN}",
            # A plugin's folder was the program itself; now that is ".", and the folder is sent apart.
            "args := []string{req.Program}": (
                f"{_VIRTUALENV_OF_CALL}\n\targs := []string{{req.GetInfo().GetProgramDirectory()}}"
            ),
            '"github.com/pulumi/pulumi/sdk/v3/python"': '"athanor/toolchain/platform/pulumi-language-python/python"',
            "About(ctx context.Context, req *pbempty.Empty)": "About(ctx context.Context, req *pulumirpc.AboutRequest)",
            "if logging.V(5) {": "if logging.V(5).Enabled() {",
            "if logging.V(9) {": "if logging.V(9).Enabled() {",
        }
    },
)
_PROMETHEUS = CopiedModule(
    folder="prometheus",
    module="github.com/prometheus/prometheus",
    # Prometheus asks Kubernetes for its targets: each of the 25 other places that it could ask needs an SDK. A
    # description of the API in OpenAPI's words and remote writes to Azure and Google Cloud are left out, too.
    without=(
        "plugins/plugin_[!k]*.go",
        "web/api/v1/openapi*.go",
        "web/api/testhelpers",
        "storage/remote/azuread/*",
        "storage/remote/googleiam/*",
    ),
)
_ALERTMANAGER = CopiedModule(
    folder="alertmanager",
    module="github.com/prometheus/alertmanager",
    # The sources of pages that are in no Go module, and alerts to Amazon SNS and Kafka.
    without=("ui/app/*", "ui/mantine-ui/*", "kafka/*", "eventrecorder/kafka.go", "notify/sns/*"),
)
_VOLCANO = CopiedModule(
    folder="volcano",
    module="volcano.sh/volcano",
    # Usage of nodes from Elasticsearch, whose client has a function for each of its calls.
    without=(
        "pkg/scheduler/metrics/source/metrics_client_elasticsearch.go",
        "pkg/scheduler/cache/cache_mock.go",
        "pkg/controllers/sharding/test_utils.go",
        "third_party/kubernetes/pkg/scheduler/backend/queue/testing.go",
        *("installer", "docs", "test"),
    ),
)
# Helpers of upstream's tests that lie among the packages' own files. For them alone all fake clients are compiled, a
# hundred packages.
_KUBERNETES = CopiedModule(
    folder="kubernetes",
    module="k8s.io/kubernetes",
    without=("pkg/scheduler/backend/queue/testing.go", "api", "test", "*/testdata", "CHANGELOG"),
)
_API_SERVER = CopiedModule(
    folder="apiserver",
    module="k8s.io/apiserver",
    without=("pkg/admission/plugin/policy/generic/policy_test_context.go",),
)
_KWOK = CopiedModule(
    folder="kwok",
    module="sigs.k8s.io/kwok",
    # Its last release for an earlier Kubernetes, and the two places where that one differs from ours.
    changes={
        "pkg/utils/informer/informer.go": {
            "metav1.InitialEventsListBlueprintAnnotationKey": '"kubernetes.io/initial-events-list-blueprint"'
        },
        "pkg/kwokctl/etcd/scheme.go": {
            'networkingv1alpha1 "k8s.io/api/networking/v1alpha1"': "",
            "_ = networkingv1alpha1.AddToScheme(scheme)": "",
        },
    },
)
_METRICS_ADAPTER = CopiedModule(
    folder="prometheus-adapter",
    module="sigs.k8s.io/prometheus-adapter",
    # Its last release is for an earlier Kubernetes. Here the library for ours differs; and the time that is left for a
    # query is negative, which that release's library of Prometheus left out and today's sends.
    changes={
        "pkg/client/api.go": {"return time.Since(deadline), true": "return time.Until(deadline), true"},
        "cmd/adapter/adapter.go": {
            "stopCh := genericapiserver.SetupSignalHandler()": (
                "ctx := genericapiserver.SetupSignalContext()\n\tstopCh := ctx.Done()"
            ),
            "cmd.Run(stopCh)": "cmd.Run(ctx)",
        },
    },
)
_ENVOY_GATEWAY = CopiedModule(
    folder="envoy-gateway",
    module="github.com/envoyproxy/gateway",
    without=(
        # Ours stands in for both.
        "internal/gatewayapi/resource/defaulter.go",
        "internal/gatewayapi/resource/validator.go",
        # Every type of Envoy's configuration, for configurations that users write themselves (EnvoyPatchPolicy): most
        # of the time to compile it, and nothing that the platform declares.
        "internal/xds/extensions/extensions.gen.go",
        "*/testdata",
    ),
)
_FIRST_LINE_OF_RUN = "tracingSpan := opentracing.SpanFromContext(ctx)"
_AFTER_MONITOR = "// Channel producing the final response we want to issue to our caller."
_FORWARDED_ERRORS = "// Forward any rpc server or pipe errors to our output channel."
_AFTER_ERRORS = 'nodeBin, err := exec.LookPath("node")'
_OLD_PROGRAM = "req.GetProgram(),\n\t\tpulumiPackagePathToVersionMap"
_NODEJS_HOST = CopiedModule(
    folder="pulumi-language-nodejs",
    module="github.com/pulumi/pulumi/sdk/v3",
    parts={"nodejs/cmd/pulumi-language-nodejs": "."},
    # The last release of the host that is in the SDK's module. It stood between the program and the engine, for
    # synchronous calls. Today's SDK for Node makes none of these, and makes others that the host would not pass on. So
    # the program calls the engine itself, and what starts the proxy becomes a comment.
    without=("*/proxy*.go",),
    changes={
        "main.go": {
            _FIRST_LINE_OF_RUN: "host = host.withOptions(req.GetInfo())\n\t/*",
            _AFTER_MONITOR: f"*/\n\t{_AFTER_MONITOR}",
            _FORWARDED_ERRORS: "/*",
            _AFTER_ERRORS: f"*/\n\t{_AFTER_ERRORS}",
            'fmt.Sprintf("127.0.0.1:%d", handle.Port), pipes.directory()': 'req.GetMonitorAddress(), ""',
            '"google.golang.org/grpc/credentials/insecure"': "",
            # The program ends with the call, as a Python program does.
            "exec.Command(nodeBin, nodeargs...)": "exec.CommandContext(ctx, nodeBin, nodeargs...)",
            # What was the program's folder is now the file to start in it.
            _OLD_PROGRAM: _OLD_PROGRAM.replace("GetProgram()", "GetInfo().GetProgramDirectory()"),
            "npm.Install(ctx, ": "npm.Install(ctx, packageManager(req.GetInfo()), ",
            "About(ctx context.Context, req *pbempty.Empty)": "About(ctx context.Context, req *pulumirpc.AboutRequest)",
            "if logging.V(5) {": "if logging.V(5).Enabled() {",
        }
    },
)
COPIED = {
    PLATFORM_GRAPH: (
        *(_ENGINE, _password_strength("ccojocar"), _password_strength("nbutton23")),
        *(_LANGUAGE_HOST, _PROMETHEUS, _ALERTMANAGER),
        *(_VOLCANO, _KUBERNETES, _API_SERVER, _KWOK),
    ),
    NODEJS_GRAPH: (_NODEJS_HOST,),
    METRICS_ADAPTER_GRAPH: (_API_SERVER, _METRICS_ADAPTER),
    GATEWAY_GRAPH: (_ENVOY_GATEWAY,),
}
"""Copies by graph."""


def copy_module(go: Go, sources: Path, copied: CopiedModule) -> None:
    """Complete the folder of one in `sources`, a copy of the graph's folder.

    Args:
        go: gets the module.
        sources: the copy of the graph's folder.
        copied: which module, and what is different.

    Raises:
        ToolchainError: the module is not available, differs from go.sum, or is not what the table expects.
    """
    target = sources / copied.folder
    upstream = go.module_folder(target / "upstream", copied.module)
    for part, place in copied.parts.items():
        _copy_part(upstream, upstream / part, target / place, (_TESTS, *copied.without))
    for name, changes in copied.changes.items():
        _change(target / name, changes)


def _copy_part(upstream: Path, part: Path, target: Path, without: tuple[str, ...]) -> None:
    def left_out(folder: str, names: list[str]) -> list[str]:
        place = type(part)(folder)
        return [
            name
            for name in names
            if any(fnmatch((place / name).relative_to(upstream).as_posix(), pattern) for pattern in without)
        ]

    def copy_unless_ours(source: str, copy: str) -> None:
        if not type(part)(copy).exists():
            shutil.copyfile(source, copy)

    shutil.copytree(part, target, ignore=left_out, copy_function=copy_unless_ours, dirs_exist_ok=True)


def _change(file: Path, changes: Mapping[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise ToolchainError(
                f"{file.name} has no {old!r} to replace. Fix: compare its module's release with copied_modules.py"
            )
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
