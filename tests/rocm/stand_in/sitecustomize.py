"""Loaded by each Python that tests start with PORTKIT_STAND_IN: lays a device of HIP under torch and Triton.

Not at once, since that imports both: it waits until a process asks for a module that touches
devices. See :mod:`stand_in_hip`.
"""

import importlib.abc
import importlib.machinery
import os
import sys

TOUCH_DEVICES = ("portkit.run.rocm_host", "portkit.run.pinned")


class Waiting(importlib.abc.MetaPathFinder):
    """Calls the layer once one of the modules is there."""

    def find_spec(self, name, path=None, target=None):
        if name not in TOUCH_DEVICES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def then_lay(module):
            execute(module)
            import stand_in_hip

            stand_in_hip.lay()

        spec.loader.exec_module = then_lay
        return spec


if os.environ.get("PORTKIT_STAND_IN") and not os.environ.get("TRITON_INTERPRET") and "pytest" not in sys.orig_argv:
    sys.meta_path.insert(0, Waiting())
