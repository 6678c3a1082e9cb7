// Package sigv4 refuses its configuration: these builds of Prometheus and Alertmanager sign no requests to AWS.
package sigv4

import (
	"errors"
	"net/http"
)

var errAbsent = errors.New("this build has no sigv4. Fix: use the vendor's")

// SigV4Config can't be configured.
type SigV4Config struct{}

// Validate always fails.
func (*SigV4Config) Validate() error { return errAbsent }

// UnmarshalYAML always fails.
func (*SigV4Config) UnmarshalYAML(func(any) error) error { return errAbsent }

// NewSigV4RoundTripper always fails.
func NewSigV4RoundTripper(*SigV4Config, http.RoundTripper) (http.RoundTripper, error) {
	return nil, errAbsent
}
