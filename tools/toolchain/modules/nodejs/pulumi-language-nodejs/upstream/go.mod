// Pins where the folder above comes from.
module athanor/toolchain/pulumi-language-nodejs-upstream

go 1.26.0

require github.com/pulumi/pulumi/sdk/v3 v3.68.0
