// Pins where the folder above comes from.
module athanor/toolchain/envoy-gateway-upstream

go 1.26.6

require github.com/envoyproxy/gateway v1.9.0
