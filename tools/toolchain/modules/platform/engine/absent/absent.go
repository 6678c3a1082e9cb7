// Package absent takes the place of what this engine was built without: state and secrets in clouds.
package absent

import (
	"context"
	"fmt"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/secrets"
	"golang.org/x/oauth2"
)

const (
	// Scheme names both Google's stores of state (gs://) and, by the prefix of its own package, none of its keys: those
	// are among the schemes below.
	Scheme = "gs"
	// CloudkmsScope is what credentials for Google's keys would be asked for.
	CloudkmsScope = "https://www.googleapis.com/auth/cloudkms"
)

func init() {
	for _, scheme := range []string{"azblob", "gs", "s3"} {
		blob.DefaultURLMux().RegisterBucket(scheme, opener{})
	}
	for _, scheme := range []string{"awskms", "azurekeyvault", "gcpkms", "hashivault"} {
		secrets.DefaultURLMux().RegisterKeeper(scheme, opener{})
	}
}

// Error says that something was left out, and how to get it.
func Error(what string) error {
	return fmt.Errorf("this engine was built without clients of clouds, so not for %s. "+
		"Fix: `make tools ENGINE=pulumi-with-clouds` builds one with them and uses it from then on", what)
}

type opener struct{}

func (opener) OpenBucketURL(_ context.Context, u *url.URL) (*blob.Bucket, error) {
	return nil, Error("state in " + u.Scheme + "://")
}

func (opener) OpenKeeperURL(_ context.Context, u *url.URL) (*secrets.Keeper, error) {
	return nil, Error("secrets of " + u.Scheme + "://")
}

// URLOpener opens no key.
type URLOpener struct {
	opener
	Client any
}

// Dial connects to no key store.
func Dial(context.Context, oauth2.TokenSource) (any, func(), error) {
	return nil, nil, Error("secrets of gcpkms://")
}
