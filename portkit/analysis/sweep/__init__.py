"""How a figure moves along one axis: over the depth of a fused chain, and over the size of its tensors."""

from portkit.analysis.sweep.depth import Chain, chains
from portkit.analysis.sweep.size import Sizes, sizes

__all__ = ["Chain", "Sizes", "chains", "sizes"]
