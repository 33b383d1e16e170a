"""What a block asks of a unit, and how its needs are named."""

from __future__ import annotations

from dataclasses import dataclass, fields

WAVES = "waves"
BLOCKS = "blocks"
REGISTERS = "registers"
SHARED_MEMORY = "shared memory"
BARRIERS = "barriers"
TENSOR_MEMORY = "tensor memory"

RESOURCES = (WAVES, BLOCKS, REGISTERS, SHARED_MEMORY, BARRIERS, TENSOR_MEMORY)
"""Resources in the order in which a tie names the limiter: fixed by hardware first."""


@dataclass(frozen=True)
class Block:
    """Needs of one block (workgroup) of a kernel.

    Raises:
        ValueError: a figure is negative, not a whole number, or ``threads`` is 0.
    """

    threads: int
    registers: int  # 32-bit registers per thread; 0 counts as the smallest allocation
    shared_bytes: int = 0
    barriers: int = 1  # named barriers, NVIDIA
    tensor_memory_columns: int = 0
    scalar_registers: int = 0  # per wave, AMD

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{each.name} must be a whole number of 0 or more, got {value!r}")
        if self.threads == 0:
            raise ValueError("threads must be 1 or more, got 0")

    def waves(self, wave_size: int) -> int:
        """Waves (warps) of the block, the last one filled up."""
        return divide_up(self.threads, wave_size)


def divide_up(value: int, step: int) -> int:
    """Steps that cover a value."""
    return -(-value // step)


def round_up(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``value``."""
    return divide_up(value, step) * step
