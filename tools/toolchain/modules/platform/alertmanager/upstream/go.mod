// Pins where the folder above comes from.
module athanor/toolchain/alertmanager-upstream

go 1.26.0

require github.com/prometheus/alertmanager v0.34.2
