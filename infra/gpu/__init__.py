"""GPUs in the cluster: how they are shared, who announces them to the scheduler, who measures them."""
