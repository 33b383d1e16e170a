"""Whether portkit's own judgement is right on this host: kernels of which all is known, and planted faults."""
