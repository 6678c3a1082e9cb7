"""`athanor run`: turns a folder and a command into a job on the cluster, as a small stack of its own."""
