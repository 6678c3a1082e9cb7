"""What runs in the pods: training, export and serving. Imports nothing of this project's infrastructure."""
