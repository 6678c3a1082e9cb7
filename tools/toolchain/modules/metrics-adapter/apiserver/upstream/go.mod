// Pins where the folder above comes from.
module athanor/toolchain/metrics-adapter-apiserver-upstream

go 1.26.0

require k8s.io/apiserver v0.34.4
