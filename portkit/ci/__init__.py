"""Workflows of CI systems, made from the fleet file, and what their steps call.

``github`` and ``gitlab`` write files; the other modules are what those files call: they read a CI
system's API and its environment, and decide nothing that a test can't try.
"""
