"""portkit: what changes when the same fused Triton kernel runs on another GPU.

This module is the public face: what a kernel file needs to declare a case.
"""

from portkit.errors import PortkitError
from portkit.model import Direction, Discrete, KernelCase, Shape, Work

__all__ = ["Direction", "Discrete", "KernelCase", "PortkitError", "Shape", "Work", "__version__"]

__version__ = "0.1.0"
