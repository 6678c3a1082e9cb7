// Pins where alibaba-cloud-sdk comes from.
module athanor/toolchain/alibaba-cloud-sdk-upstream

go 1.26.0

require github.com/aliyun/alibaba-cloud-sdk-go v1.63.107
