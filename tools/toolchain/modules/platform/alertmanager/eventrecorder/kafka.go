package eventrecorder

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	commoncfg "github.com/prometheus/common/config"
)

var errAbsent = errors.New("this build of Alertmanager has no kafka_outputs. Fix: use the vendor's")

// KafkaOutputConfig can't be configured.
type KafkaOutputConfig struct {
	Brokers   []string
	Topic     string
	TLSConfig *commoncfg.TLSConfig
}

// UnmarshalYAML always fails.
func (*KafkaOutputConfig) UnmarshalYAML(func(any) error) error { return errAbsent }

func (KafkaOutputConfig) equal(KafkaOutputConfig) bool { return true }

// NewKafkaOutput always fails.
func NewKafkaOutput(
	KafkaOutputConfig, string, *prometheus.CounterVec, *prometheus.CounterVec, *slog.Logger,
) (Destination, error) {
	return nil, errAbsent
}
