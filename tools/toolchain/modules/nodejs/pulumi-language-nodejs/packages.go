// What today's engine asks of a host and did not ask of this one at its time: SDKs of packages, and options with each call.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pulumi/pulumi/pkg/v3/codegen/cgstrings"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/contract"
	"github.com/pulumi/pulumi/sdk/v3/nodejs/npm"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

const (
	folderMode = 0o755
	fileMode   = 0o644
)

// GeneratePackage writes the SDK of a package, for `pulumi package add` and `pulumi package gen-sdk`.
func (host *nodeLanguageHost) GeneratePackage(
	_ context.Context, request *pulumirpc.GeneratePackageRequest,
) (*pulumirpc.GeneratePackageResponse, error) {
	var specification schema.PackageSpec
	if err := json.Unmarshal([]byte(request.GetSchema()), &specification); err != nil {
		return nil, fmt.Errorf("the package's schema: %w", err)
	}
	client, err := schema.NewLoaderClient(request.GetLoaderTarget())
	if err != nil {
		return nil, err
	}
	defer contract.IgnoreClose(client)
	loader := schema.NewCachedLoader(client)
	bound, diagnostics, err := schema.BindSpec(specification, loader, schema.ValidationOptions{AllowDanglingReferences: true})
	if err != nil {
		return nil, err
	}
	response := &pulumirpc.GeneratePackageResponse{Diagnostics: plugin.HclDiagnosticsToRPCDiagnostics(diagnostics)}
	if diagnostics.HasErrors() {
		return response, nil
	}
	files, err := nodejs.GeneratePackage(
		"pulumi-language-nodejs", bound, request.GetExtraFiles(), request.GetLocalDependencies(), request.GetLocal(), loader)
	if err != nil {
		return nil, err
	}
	return response, writeFiles(request.GetDirectory(), files)
}

func writeFiles(folder string, files map[string][]byte) error {
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), folderMode); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, fileMode); err != nil {
			return err
		}
	}
	return nil
}

// Link adds generated SDKs to the project's package.json.
func (host *nodeLanguageHost) Link(
	ctx context.Context, request *pulumirpc.LinkRequest,
) (*pulumirpc.LinkResponse, error) {
	project := request.GetInfo().GetProgramDirectory()
	manager, err := npm.ResolvePackageManager(packageManager(request.GetInfo()), project)
	if err != nil {
		return nil, err
	}
	lines := []string{"Import it with:", ""}
	for _, linked := range request.GetPackages() {
		name, err := packageName(filepath.Join(project, linked.GetPath()))
		if err != nil {
			return nil, err
		}
		if err := manager.Link(ctx, project, name, linked.GetPath()); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("  import * as %s from %q;", cgstrings.Camel(filepath.Base(name)), name))
	}
	return &pulumirpc.LinkResponse{ImportInstructions: strings.Join(lines, "\n")}, nil
}

// packageName reads the name that the SDK in a folder is imported by.
func packageName(folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return "", err
	}
	var manifest packageJSON
	if err := json.Unmarshal(content, &manifest); err != nil {
		return "", fmt.Errorf("%s/package.json: %w", folder, err)
	}
	return manifest.Name, nil
}

// withOptions returns the host with `runtime.options` of a project's Pulumi.yaml, which the engine once sent as flags.
func (host *nodeLanguageHost) withOptions(info *pulumirpc.ProgramInfo) *nodeLanguageHost {
	changed := *host
	options := info.GetOptions().GetFields()
	if typescript, given := options["typescript"]; given {
		changed.typescript = typescript.GetBoolValue()
	}
	if path, given := options["tsconfig"]; given {
		changed.tsconfigpath = path.GetStringValue()
	}
	if arguments, given := options["nodeargs"]; given {
		changed.nodeargs = arguments.GetStringValue()
	}
	return &changed
}

func packageManager(info *pulumirpc.ProgramInfo) npm.PackageManagerType {
	if name := info.GetOptions().GetFields()["packagemanager"].GetStringValue(); name != "" {
		return npm.PackageManagerType(name)
	}
	return npm.AutoPackageManager
}
