"""Calls of other libraries' fused operations, for kernel cases to name as baselines.

    from portkit.baselines import liger, pytorch

    case = KernelCase(..., baselines={"torch": pytorch.softmax, "liger": liger.softmax})

One module a library. A module here imports without its library, which is loaded at the
first call; where it is not installed, the row says so by its name. Arguments go by name,
so a case whose inputs have other names writes a function of its own around a call, under
the library's decorator: ``@liger.LIGER.call()``.
"""

from portkit.baselines.library import KNOWN, Library, LibraryCall

__all__ = ["KNOWN", "Library", "LibraryCall"]
