// The Alibaba Cloud provider of Pulumi: Alibaba Cloud's Terraform provider behind Pulumi's official bridge.
package main

import (
	_ "embed"

	"athanor/toolchain/alicloud/mapping"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
)

// Written by pulumi-tfgen-alicloud before this is compiled.
//
//go:embed schema.json
var schema []byte

func main() { tfbridge.Main(mapping.Package, mapping.Version, mapping.Provider(), schema) }
