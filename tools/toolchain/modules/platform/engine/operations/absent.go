package operations

import (
	"github.com/pulumi/pulumi/pkg/v3/absent"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
)

// CloudOperationsProvider always fails: this engine was built without it.
func CloudOperationsProvider(map[config.Key]string, *Resource) (Provider, error) {
	return nil, absent.Error("logs from AWS")
}

// AWSOperationsProvider always fails: this engine was built without it.
func AWSOperationsProvider(map[config.Key]string, *Resource) (Provider, error) {
	return nil, absent.Error("logs from AWS")
}

// GCPOperationsProvider always fails: this engine was built without it.
func GCPOperationsProvider(map[config.Key]string, *Resource) (Provider, error) {
	return nil, absent.Error("logs from Google Cloud")
}
