"""Last night against before: what became slower or worse, without false alarms.

``thresholds`` what counts · ``times`` the test on medians · ``noise`` what it measures
against · ``figures`` everything that is no time · ``cells`` one cell on both sides ·
``judge`` all of them. Pure: reads two Datasets and changes neither.
"""
