// The part of Alibaba Cloud's Go SDK that its Terraform provider calls: all of it is put here from the verified upstream
// module before the provider is compiled.
module github.com/aliyun/alibaba-cloud-sdk-go

go 1.21

require (
	github.com/jmespath/go-jmespath v0.4.0
	github.com/json-iterator/go v1.1.12
	github.com/modern-go/reflect2 v1.0.2
	github.com/opentracing/opentracing-go v1.2.1-0.20220228012449-10b1cf09e00b
	gopkg.in/ini.v1 v1.67.0
)
