// Pins where the folder above comes from.
module athanor/toolchain/kubernetes-upstream

go 1.26.0

require k8s.io/kubernetes v1.34.4
