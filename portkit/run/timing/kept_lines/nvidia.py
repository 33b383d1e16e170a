"""NVIDIA's L2 holds lines that were loaded ``evict_last`` until they are reset.

Triton's ``eviction_policy="evict_last"`` is such a load, and torch.compile's kernels use it.

Source: ``cuCtxResetPersistingL2Cache`` of the CUDA driver API (from CUDA 11.0 on), which makes all
persisting lines normal; they keep what they hold until something else is read.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any


def let_go() -> bool:
    """Make all persisting lines of the current context's device normal; False where the driver can't."""
    call = _call()
    return call is not None and call() == 0


@functools.cache
def _call() -> Any:
    """The driver's function; None where this process can't find it."""
    try:
        function = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return None
    function.argtypes = []
    function.restype = ctypes.c_int
    return function
