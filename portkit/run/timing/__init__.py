"""Times of calls on the device of this process: two clocks, one file a concern.

``samples`` what was seen and ``asked`` what may be asked for (no torch) · ``places`` where
tensors lie · ``flush`` cold caches · ``events`` device events · ``trace`` kernel time · ``modes``
warm caches and graphs · ``order`` of the functions in a round · ``rounds`` when to stop ·
``readings`` state of the device · ``engine`` all of it for one cell · ``statistics`` medians and
intervals · ``summary`` what a record holds · ``wall`` the host's clock around
whole models · ``overhead`` what events cost.
"""
