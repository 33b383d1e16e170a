"""Copies of what jobs over ssh have so far, fetched as they go on: later, a lost host gives nothing."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from portkit.fleet.on_host import SECONDS, fetch
from portkit.fleet.site import Host

EVERY_SECONDS: Final = 60.0
"""What a lost host may cost at most: the records of so long."""

_AT_ONCE: Final = 8


class Mirror:
    """Fetches from all hosts again and again until it is closed."""

    def __init__(self, jobs: Mapping[Path, tuple[Host, str]], every_seconds: float = EVERY_SECONDS) -> None:
        self._jobs = jobs  # folder of the copy → host and nonce
        self._every = every_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="portkit-mirror", daemon=True)

    def __enter__(self) -> Mirror:
        if self._jobs:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(SECONDS)

    def _go_on(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            while not self._closed.wait(self._every):
                copies = [pool.submit(fetch, host, nonce, folder) for folder, (host, nonce) in self._jobs.items()]
                concurrent.futures.wait(copies)
