"""Words by which CUDA, HIP and ROCm's runtime name a fault of the running kernel; no torch.

CUDA raises at the next call. ROCm's runtime mostly prints and aborts the process, so that its
words are in what the process said last.
"""

from __future__ import annotations

from typing import Final

FAULTS: Final = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "illegal address",
    "unspecified launch failure",
    "device-side assert",
    "hardware exception",
    "memory access fault",
    "hsa_status_error_memory",
    "hsa_status_error_exception",
    "hsa_status_error_illegal_instruction",
)
"""In lower case. Source of the last: ROCR-Runtime, ``hsa.h`` and ``hsa_ext_amd.h``."""

ABORTS: Final = ("Memory access fault by GPU", "HW Exception by GPU", "HSA_STATUS_ERROR")
"""What ROCm's runtime prints before it aborts the process, as it writes it."""


def names_fault(text: str) -> bool:
    """Whether a text says that the running kernel made a fault."""
    lower = text.lower()
    return any(words in lower for words in FAULTS)


def aborted_by_runtime(log: str) -> bool:
    """Whether ROCm's runtime says in a log that it aborts the process for a fault of the GPU."""
    return any(words in log for words in ABORTS)
