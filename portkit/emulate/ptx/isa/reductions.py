"""Operations that combine two values, of atomics, of reductions over a warp and of bulk copies that reduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

INTEGER: Final[Mapping[str, np.ufunc]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""PTX name → what it makes of what is there and another value."""
