"""The experiment of ``portkit toggle``: a model eager, compiled, and in variants.

``process`` starts and watches the child (no torch) · ``child`` is its program · ``subjects`` the
models and their inputs · ``ways`` how each is called, compiled and timed · ``inductor`` what
torch.compile made · ``generated`` reads its code (no torch) · ``counting`` what eager operations
move and compute · ``agreement`` whether results are right · ``gpu`` the device's trace and ceilings ·
``variant`` the process of a variant · ``remote`` speaks to it · ``counters`` has bytes counted by
the vendor's profiler, under which ``profiled`` runs · ``device`` which device it is.
"""
