"""What a report shows beyond tables: the figures of one plot or page, worked out and named.

Pure: comparisons and merged rows come in. Every format of :mod:`portkit.render` draws these
values and computes nothing itself.
"""
