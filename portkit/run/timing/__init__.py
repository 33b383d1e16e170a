"""Times of calls on the device of this process: two clocks, one file a concern.

``samples`` what was seen (no torch) · ``flush`` cold caches · ``events`` device events ·
``trace`` kernel time · ``modes`` warm caches and graphs · ``rounds`` when to stop ·
``engine`` all of it for one cell · ``statistics`` medians and intervals · ``summary`` what
a record holds · ``overhead`` what events cost.
"""
