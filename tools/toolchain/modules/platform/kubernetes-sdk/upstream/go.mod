// Pins where the parts of kubernetes-sdk come from that are not ours.
module athanor/toolchain/kubernetes-sdk-upstream

go 1.24.7

require github.com/pulumi/pulumi-kubernetes/sdk/v4 v4.24.0
