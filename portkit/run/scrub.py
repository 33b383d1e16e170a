"""Removes what identifies a user's machine from text that is stored."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import tempfile
from pathlib import Path

_PART = r"[\w.+@~=-]+"
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_HOME = re.compile(r".*?/(?:home|Users|root)(?=/|$)(?:(?<!/root)/[^/]+)?")
"""The way to a user's folder, wherever home folders are mounted."""

_ADDRESS = re.compile(r"(?P<scheme>\b(?!file:)[a-z][a-z0-9+.-]{0,15}://)(?:[^/\s@]+@)?(?P<rest>[^\s\"']*)", re.I)


def scrub(text: str) -> str:
    """Shorten absolute paths, and leave names of users out of them.

    Packages become their import path, others their last two parts, fewer where these would hold
    the folder of a user; ``~`` stands for such a folder itself. Addresses of the network stay,
    without the name and password in them.

    >>> scrub('File "/home/ann/k/softmax.py", line 3')
    'File "k/softmax.py", line 3'
    >>> scrub("error:/home/ann/softmax.py")
    'error:softmax.py'
    >>> scrub("/opt/venv/lib/python3.11/site-packages/triton/compiler/code_generator.py:12")
    'triton/compiler/code_generator.py:12'
    """
    pattern, user = _pattern(*_roots()), _login()
    return pattern.sub(lambda match: _replacement(match, user), text)


_TEMPORARY = re.compile(r"(?:[\w.-]+/)*tmp[a-z0-9_]{8}(?:\.\w+)*")
"""Names that the compiler gave its files for this one build."""


def nameless(text: str) -> str:
    """Without the names of temporary files, so that two builds say the same.

    >>> nameless("ptxas tmpw2ye7bjd.ptx, line 53; fatal")
    'ptxas FILE, line 53; fatal'
    """
    return _TEMPORARY.sub("FILE", text)


def tail(text: str, lines: int = 12) -> str:
    """The last lines that say something, scrubbed."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return scrub("\n".join(kept[-lines:]))


def _roots() -> tuple[str, ...]:
    """Folders that are known to say who and where: of the user, the current one, of temporary files."""
    folders = [os.environ.get("HOME", ""), tempfile.gettempdir()]
    with contextlib.suppress(FileNotFoundError):  # it was removed
        folders.append(str(Path.cwd()))
    return tuple(folders)


@functools.lru_cache(maxsize=8)
def _pattern(*roots: str) -> re.Pattern[str]:
    """Addresses; paths below a folder that is known; quoted paths, blanks included; other paths."""
    known = "|".join(re.escape(root) for root in sorted({*roots} - {"/", ""}, key=len, reverse=True))
    start = r"(?<![\w./~-])(?:file://)?"
    quoted = r"(?:/(?![\s/])[^\"'\n/]*[^\"'\n/\s])"
    return re.compile(
        rf"{_ADDRESS.pattern}"
        rf"|{start}(?P<root>{known or '(?!)'})(?![\w+@~=-])(?P<below>(?:/{_PART})*)"
        rf"|(?<=[\"'])(?P<quoted>{quoted}{{2,}})(?=[\"'])"
        rf"|{start}(?P<other>(?:/{_PART}){{2,}}|/root\b)",
        re.I,
    )


@functools.cache
def _login() -> str | None:
    """The user's name; None where there is none to hide."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's number without a name
        return None
    return None if name == "root" else name


def _replacement(match: re.Match[str], user: str | None) -> str:
    if match["scheme"]:
        return match["scheme"] + match["rest"]
    path = (match["root"] or "") + (match["below"] or "") or match["quoted"] or match["other"]
    if _PACKAGES.match(path):
        return _PACKAGES.sub("", path)
    told = match["below"] if match["root"] else path
    return "/".join(_telling(_HOME.sub("", told), user)[-2:]) or "~"


def _telling(path: str, user: str | None) -> list[str]:
    """Parts of a path, those after the last that has the user's name."""
    parts = [part for part in path.split("/") if part]
    if user is None:
        return parts
    named = [index for index, part in enumerate(parts) if user in re.split(r"[^\w]|_", part)]
    return parts[named[-1] + 1 :] if named else parts
