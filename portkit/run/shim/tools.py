"""The vendors' command-line tools, by whose presence some packages tell which GPU a host has.

FlagGems asks ``nvidia-smi`` and ``rocm-smi`` at import, and refuses to go on where neither answers. In
the process of a target the vendor's tools are found and succeed, and those of the others fail.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_cache_path

from portkit.store.journal import write_whole

_ANSWERS = "#!/bin/sh\necho 'portkit: this stands in for {name}; no GPU of its kind is looked at'\nexit {code}\n"


def stand_in_tools(platform: str, present: Iterable[str], absent: Iterable[str]) -> None:
    """Let this process and its children find tools of these names before any others; where no disk takes them, nothing.

    Args:
        platform: whose tools they are; names their folder.
        present: tools that answer with success and no figures.
        absent: tools that fail.
    """
    folder = user_cache_path("portkit") / "tools" / platform
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for name in present:
            _write(folder / name, 0)
        for name in absent:
            _write(folder / name, 127)
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _write(path: Path, code: int) -> None:
    text = _ANSWERS.format(name=path.name, code=code).encode()
    if not path.exists() or path.read_bytes() != text:
        write_whole(path, text)
        path.chmod(0o755)
