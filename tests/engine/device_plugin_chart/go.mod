module athanor/tests/device-plugin-chart

go 1.23

require github.com/NVIDIA/k8s-device-plugin v0.17.4
