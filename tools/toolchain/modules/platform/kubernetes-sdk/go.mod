// The part of Pulumi's Kubernetes SDK that its Kubernetes provider uses: register.go is ours, the rest is put beside it
// from the verified upstream module before the provider is compiled.
module github.com/pulumi/pulumi-kubernetes/sdk/v4

go 1.24.7

require (
	github.com/blang/semver v3.5.1+incompatible
	github.com/pulumi/pulumi/sdk/v3 v3.232.0
)
