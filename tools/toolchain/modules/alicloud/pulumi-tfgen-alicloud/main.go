// Writes the schema of the Alibaba Cloud provider's resources as Pulumi shows them. The bridge knows by the word tfgen
// in this folder's name that it does not serve.
package main

import (
	"athanor/toolchain/alicloud/mapping"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfgen"
)

func main() { tfgen.Main(mapping.Package, mapping.Version, mapping.Provider()) }
