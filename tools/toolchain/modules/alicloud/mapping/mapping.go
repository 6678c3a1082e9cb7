// Package mapping gives the part of Alibaba Cloud's Terraform provider that the project uses the names which
// pulumi-alicloud gives it, so that pulumi-alicloud's SDKs work with both providers.
package mapping

import (
	"maps"
	"slices"

	"github.com/aliyun/terraform-provider-alicloud/alicloud"
	"github.com/hashicorp/terraform-plugin-sdk/helper/schema"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	shim "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim/sdk-v1"
)

// Package is the name of the Pulumi package.
const Package = "alicloud"

// Version is set by the linker.
var Version string

type member struct{ module, name string }

var resources = map[string]member{
	"alicloud_cs_autoscaling_config":      {"cs", "AutoscalingConfig"},
	"alicloud_cs_kubernetes_addon":        {"cs", "KubernetesAddon"},
	"alicloud_cs_kubernetes_node_pool":    {"cs", "NodePool"},
	"alicloud_cs_managed_kubernetes":      {"cs", "ManagedKubernetes"},
	"alicloud_ecs_deployment_set":         {"ecs", "EcsDeploymentSet"},
	"alicloud_eip_address":                {"ecs", "EipAddress"},
	"alicloud_eip_association":            {"ecs", "EipAssociation"},
	"alicloud_nas_access_group":           {"nas", "AccessGroup"},
	"alicloud_nas_access_rule":            {"nas", "AccessRule"},
	"alicloud_nas_file_system":            {"nas", "FileSystem"},
	"alicloud_nas_mount_target":           {"nas", "MountTarget"},
	"alicloud_nas_protocol_mount_target":  {"nas", "ProtocolMountTarget"},
	"alicloud_nas_protocol_service":       {"nas", "ProtocolService"},
	"alicloud_nat_gateway":                {"vpc", "NatGateway"},
	"alicloud_ram_policy":                 {"ram", "Policy"},
	"alicloud_ram_role":                   {"ram", "Role"},
	"alicloud_ram_role_policy_attachment": {"ram", "RolePolicyAttachment"},
	"alicloud_security_group":             {"ecs", "SecurityGroup"},
	"alicloud_security_group_rule":        {"ecs", "SecurityGroupRule"},
	"alicloud_snat_entry":                 {"vpc", "SnatEntry"},
	"alicloud_vpc":                        {"vpc", "Network"},
	"alicloud_vswitch":                    {"vpc", "Switch"},
}

var functions = map[string]member{
	"alicloud_cs_cluster_credential": {"cs", "getClusterCredential"},
	"alicloud_cs_kubernetes_addons":  {"cs", "getKubernetesAddons"},
	"alicloud_cs_kubernetes_version": {"cs", "getKubernetesVersion"},
}

// Provider returns Alibaba Cloud's Terraform provider and how its parts appear in Pulumi.
func Provider() tfbridge.ProviderInfo {
	upstream := alicloud.Provider().(*schema.Provider)
	info := tfbridge.ProviderInfo{
		P:           shim.NewProvider(upstream),
		Name:        Package,
		GitHubOrg:   "aliyun",
		Version:     Version,
		Config:      config(),
		Resources:   map[string]*tfbridge.ResourceInfo{},
		DataSources: map[string]*tfbridge.DataSourceInfo{},
		// All of it, because what is mapped below is not ignored.
		IgnoreMappings: slices.AppendSeq(slices.Collect(maps.Keys(upstream.ResourcesMap)),
			maps.Keys(upstream.DataSourcesMap)),
	}
	for name, to := range resources {
		info.Resources[name] = &tfbridge.ResourceInfo{Tok: tfbridge.MakeResource(Package, to.module, to.name)}
	}
	// A list in name only: pulumi-alicloud gives its one item.
	info.Resources["alicloud_cs_managed_kubernetes"].Fields = map[string]*tfbridge.SchemaInfo{
		"rrsa_metadata": {MaxItemsOne: tfbridge.True()},
	}
	for name, to := range functions {
		info.DataSources[name] = &tfbridge.DataSourceInfo{Tok: tfbridge.MakeDataSource(Package, to.module, to.name)}
	}
	info.SetAutonaming(255, "-")
	return info
}

// What upstream itself reads from the environment, such as the keys, stays out of the stack's state.
func config() map[string]*tfbridge.SchemaInfo {
	fromEnvironment := func(variable string) *tfbridge.SchemaInfo {
		return &tfbridge.SchemaInfo{Default: &tfbridge.DefaultInfo{EnvVars: []string{variable}}}
	}
	return map[string]*tfbridge.SchemaInfo{
		"ecs_role_name": fromEnvironment("ALICLOUD_ECS_ROLE_NAME"),
		"profile":       fromEnvironment("ALICLOUD_PROFILE"),
		"region":        fromEnvironment("ALICLOUD_REGION"),
	}
}
