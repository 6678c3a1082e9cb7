"""`athanor run`: a folder and a command become a job on the cluster, as a small stack of its own."""
