"""GPU SKUs and architectures as data, and theoretical occupancy."""
