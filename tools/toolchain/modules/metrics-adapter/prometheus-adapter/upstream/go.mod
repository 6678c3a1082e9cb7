// Pins where the folder above comes from.
module athanor/toolchain/prometheus-adapter-upstream

go 1.26.0

require sigs.k8s.io/prometheus-adapter v0.12.0
