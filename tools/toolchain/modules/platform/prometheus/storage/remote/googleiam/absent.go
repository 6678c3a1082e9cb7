// Package googleiam refuses its configuration: this build leaves remote writes to Google Cloud out.
package googleiam

import (
	"errors"
	"net/http"
)

var errAbsent = errors.New("this build of Prometheus has no google_iam. Fix: use the vendor's")

// Config can't be configured.
type Config struct{}

// UnmarshalYAML always fails.
func (*Config) UnmarshalYAML(func(any) error) error { return errAbsent }

// NewRoundTripper always fails.
func NewRoundTripper(*Config, http.RoundTripper) (http.RoundTripper, error) { return nil, errAbsent }
