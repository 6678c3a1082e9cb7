"""Programs that get a machine ready and run the local environment; the Pulumi program imports none of it."""
