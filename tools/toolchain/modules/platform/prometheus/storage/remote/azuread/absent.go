// Package azuread refuses its configuration: this build leaves remote writes to Azure out.
package azuread

import (
	"errors"
	"net/http"
)

var errAbsent = errors.New("this build of Prometheus has no azuread. Fix: use the vendor's")

// AzureADConfig can't be configured.
type AzureADConfig struct{}

// Validate always fails.
func (*AzureADConfig) Validate() error { return errAbsent }

// UnmarshalYAML always fails.
func (*AzureADConfig) UnmarshalYAML(func(any) error) error { return errAbsent }

// NewAzureADRoundTripper always fails.
func NewAzureADRoundTripper(*AzureADConfig, http.RoundTripper) (http.RoundTripper, error) {
	return nil, errAbsent
}
