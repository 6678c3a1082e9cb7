// Pins where the folder above comes from.
module athanor/toolchain/zxcvbn-nbutton23-upstream

go 1.26.0

require github.com/nbutton23/zxcvbn-go v0.0.0-20180912185939-ae427f1e4c1d
