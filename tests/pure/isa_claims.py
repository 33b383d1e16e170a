"""Which instructions a test is about: those that its parameters or its marker ``instructions`` name.

A claim is checked: the test must have run each instruction that it claims.
"""

import re

from portkit.emulate.amdgcn.isa.lookup import all_entries
from portkit.emulate.amdgcn.isa.registry import base_name

MODULES = "test_isa_"
"""Beginning of the names of modules whose tests are about instructions."""

WHOLE_KERNELS: dict[str, str] = {}
"""Entries that have no test of their own, and why: whole kernels alone exercise them."""


def claims(item):
    """Entries that a collected test is about; a test of what is refused is about none."""
    if not item.path.name.startswith(MODULES) or "refused" in item.name.partition("[")[0]:
        return set()
    marked = {name for marker in item.iter_markers("instructions") for name in marker.args}
    unknown = marked - set(all_entries())
    assert not unknown, f"{item.nodeid} is marked with what is no entry: {sorted(unknown)}"
    callspec = getattr(item, "callspec", None)
    words = re.split(r"[^a-z0-9_]+", callspec.id) if callspec else ()
    return marked | ({base_name(word) for word in words} & set(all_entries()))


class Recorder:
    """Stands for ``launch.load``, and keeps the entries that the loaded programs name."""

    def __init__(self, load):
        self._load, self.names = load, set()

    def __call__(self, text):
        code = self._load(text)
        self.names |= {base_name(item.instruction.mnemonic) for item in code.compiled}
        return code


class Collector:
    """A pytest plugin that keeps the claims of all collected tests: entry → modules of tests."""

    def __init__(self):
        self.modules = {}

    def pytest_collection_modifyitems(self, items):
        for item in items:
            for name in claims(item):
                self.modules.setdefault(name, set()).add(item.path.name)
