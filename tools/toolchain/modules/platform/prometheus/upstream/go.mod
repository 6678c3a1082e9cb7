// Pins where the folder above comes from.
module athanor/toolchain/prometheus-upstream

go 1.26.0

require github.com/prometheus/prometheus v0.314.0
