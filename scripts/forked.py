"""The server that judging processes are forked from: it loads PyTorch and Triton once, while its caller does others."""

from __future__ import annotations

from multiprocessing import forkserver

LOADED = ("portkit.run.measure", "portkit.run.load")
"""What it loads; no script, since it has no path to them."""


def begin() -> None:
    """Start the server, unless it runs."""
    forkserver.set_forkserver_preload(list(LOADED))
    forkserver.ensure_running()
