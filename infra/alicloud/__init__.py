"""An environment on Alibaba Cloud: VPC, ACK cluster, add-ons, node pools, storage."""
