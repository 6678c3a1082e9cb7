// Package authhelpers finds no credentials: this engine was built without Google Cloud.
package authhelpers

import (
	"context"

	"gocloud.dev/blob"
	"golang.org/x/oauth2/google"

	"github.com/pulumi/pulumi/pkg/v3/absent"
)

// ResolveGoogleCredentials always fails.
func ResolveGoogleCredentials(context.Context, string) (*google.Credentials, error) {
	return nil, absent.Error("secrets of gcpkms://")
}

// GoogleCredentialsMux always fails.
func GoogleCredentialsMux(context.Context) (*blob.URLMux, error) {
	return nil, absent.Error("state in gs://")
}
