// Pins where the folder above comes from.
module athanor/toolchain/engine-upstream

go 1.26.0

require github.com/pulumi/pulumi/pkg/v3 v3.232.0
