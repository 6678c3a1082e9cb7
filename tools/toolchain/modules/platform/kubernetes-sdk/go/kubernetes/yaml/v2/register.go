// Package v2 registers the Kubernetes objects that are read from YAML.
//
// Upstream's package has a typed case for each of 157 kinds and so compiles the whole typed SDK, a quarter of the time
// that all our tools take together. Every case sends the engine the same request: a type token made from the object's
// API version and kind, its name, inputs and options. The types only serve programs that read outputs by field, which
// the provider does not.
package v2

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

type object struct{ pulumi.CustomResourceState }

// RegisterResource registers the object of any kind as the resource that it is in every Pulumi SDK.
func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	if apiVersion == "v1" {
		apiVersion = "core/v1"
	}
	var registered object
	token := fmt.Sprintf("kubernetes:%s:%s", apiVersion, kind)
	if err := ctx.RegisterResource(token, name, props, &registered, opts...); err != nil {
		return nil, err
	}
	return &registered, nil
}
