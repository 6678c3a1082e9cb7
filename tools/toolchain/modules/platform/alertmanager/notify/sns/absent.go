// Package sns sends nothing: this build of Alertmanager leaves Amazon SNS out.
package sns

import (
	"errors"
	"log/slog"

	commoncfg "github.com/prometheus/common/config"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/template"
)

// New always fails.
func New(*config.SNSConfig, *template.Template, *slog.Logger, ...commoncfg.HTTPClientOption) (notify.Notifier, error) {
	return nil, errors.New("this build of Alertmanager has no sns_configs. Fix: use the vendor's")
}
