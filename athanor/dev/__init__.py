"""`athanor dev`: a pod to develop in, whose folder is kept equal to one of this machine."""
