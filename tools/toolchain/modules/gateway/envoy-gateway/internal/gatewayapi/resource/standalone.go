// Package resource, in place of upstream's validator.go and defaulter.go.
//
// Both serve the standalone mode, which reads objects from files instead of a cluster. They bring the API server's
// library with them: seven hundred packages to compile, for a mode that this program is never started in.
package resource

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var errStandalone = errors.New("this program is built without its standalone mode")

// Validator refuses everything.
type Validator struct{}

// GetDefaultValidator returns it.
func GetDefaultValidator() *Validator { return &Validator{} }

// Validate refuses.
func (*Validator) Validate([]byte) error { return errStandalone }

// Defaulter refuses everything.
type Defaulter struct{}

// GetGatewaySchemaDefaulter returns it.
func GetGatewaySchemaDefaulter() *Defaulter { return &Defaulter{} }

// ApplyDefault refuses.
func (*Defaulter) ApplyDefault(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, errStandalone
}
