// Pins where the folder above comes from.
module athanor/toolchain/zxcvbn-ccojocar-upstream

go 1.26.0

require github.com/ccojocar/zxcvbn-go v1.0.1
