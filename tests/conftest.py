"""Shared by all tests.

Slow ones are left out unless ``-m`` speaks of them, as ``-m "slow or not slow"`` does, or a test is named by its id.
"""

import gc
import os

import pytest

pytest_plugins = ["pytester"]

# PyTorch's compiler tries vector instructions in processes of their own, and its C++ takes twice as long with them.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

LONG = ("diverging", "fleet", "faults", "compiled", "emulated", "rocm", "interpreted", "browser", "records")
"""Folders whose files take long, to be begun first: short files then keep all processes at work to the end.

Those of fleets wait for Slurm more than they compute, and do so beside the builds of the first.
"""

TOGETHER = ("tests/diverging/",)
"""Folders whose files look at the same builds, so that one process makes them once."""


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    """Texts are as wide as a test says, whatever the terminal of its caller."""
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):  # a process of several, to which files are handed in this order
        items.sort(key=lambda item: _rank(item.nodeid))
    if "slow" in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


def pytest_collection_finish():
    """What was collected stays to the end: garbage is looked for among what tests make alone."""
    gc.collect()
    gc.freeze()


def _rank(nodeid):
    folder = nodeid.removeprefix("tests/").partition("/")[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files are handed out whole with ``--dist loadfile``, and folders that share builds, too."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Folders(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next(filter(nodeid.startswith, TOGETHER), None) or super()._split_scope(nodeid)

    return Folders(config, log)
