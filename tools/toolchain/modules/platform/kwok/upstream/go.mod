// Pins where the folder above comes from.
module athanor/toolchain/kwok-upstream

go 1.26.0

require sigs.k8s.io/kwok v0.7.0
