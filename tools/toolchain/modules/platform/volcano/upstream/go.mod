// Pins where the folder above comes from.
module athanor/toolchain/volcano-upstream

go 1.26.0

require volcano.sh/volcano v1.14.1
