package v1

import (
	"log/slog"
	"net/http"
)

// OpenAPIOptions is what a description of the API would be made from.
type OpenAPIOptions struct {
	ExternalURL    string
	Version        string
	MaxSearchLimit int
}

// OpenAPIBuilder describes nothing: this build leaves the description out.
type OpenAPIBuilder struct{}

// NewOpenAPIBuilder returns one.
func NewOpenAPIBuilder(OpenAPIOptions, *slog.Logger) *OpenAPIBuilder { return &OpenAPIBuilder{} }

// ServeOpenAPI answers that there is no description.
func (*OpenAPIBuilder) ServeOpenAPI(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this build of Prometheus has no OpenAPI description", http.StatusNotFound)
}

// WrapHandler changes nothing.
func (*OpenAPIBuilder) WrapHandler(next http.HandlerFunc) http.HandlerFunc { return next }
