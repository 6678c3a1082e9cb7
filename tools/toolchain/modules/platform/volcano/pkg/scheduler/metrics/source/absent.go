package source

import (
	"context"
	"errors"
)

// ElasticsearchMetricsClient asks nobody: this build leaves Elasticsearch's client out.
type ElasticsearchMetricsClient struct{}

var errAbsent = errors.New("this build of Volcano reads no usage from Elasticsearch. Fix: use the vendor's image")

// NewElasticsearchMetricsClient always fails.
func NewElasticsearchMetricsClient(map[string]string) (*ElasticsearchMetricsClient, error) {
	return nil, errAbsent
}

// NodesMetricsAvg always fails.
func (*ElasticsearchMetricsClient) NodesMetricsAvg(context.Context, map[string]*NodeMetrics) error {
	return errAbsent
}
