"""Many hosts: the matrix on a Slurm cluster, over ssh and on this host, through ReFrame, merged into one comparison.

Nothing here schedules. ReFrame's backends hand a shell job to each host, the job is the plain
``pytest --benchmark`` of that host's own interpreter or container, and what comes back is reports.
"""
