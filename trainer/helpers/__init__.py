"""Programs of the platform and its operators, run in pods: clean-up of finished jobs, a report on the hardware."""
