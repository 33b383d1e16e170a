"""What the GPU of this process can do at most, measured on it: import from the modules."""
