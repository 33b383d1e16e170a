"""Cold caches: a buffer larger than the caches is read before each sample.

Reading evicts the inputs and leaves no dirty lines, whose write-back a flush by writing
would put into the sample. Lines that a kernel asked to be kept would stay: these are let go
of first (:mod:`~portkit.run.timing.kept_lines`). Reading with the same wish would drive them out, too,
but fill the cache with lines of the flush that stay, and leave a function less of it than it has.
That it does evict is measured: :func:`evicts`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from portkit.model import Target
from portkit.run.timing import kept_lines
from portkit.targets.caches import may_have_infinity_cache

MIN_FLUSH_BYTES = 256 << 20
"""Smallest flush: twice the largest L2 there is, B200's 126 MiB."""

DEFAULT_FLUSH_BYTES = 512 << 20
"""Flush where neither device nor catalogue knows a cache: twice the largest there is, MI300X's 256 MiB."""


@dataclass(frozen=True)
class Flush:
    """Lets kept lines go, and reads a buffer larger than the caches, some times over."""

    buffer: torch.Tensor
    reads: int = 1

    def __call__(self) -> None:
        """Wait for the device, then enqueue the reads on the current stream."""
        self.let_go()
        self.read()

    def let_go(self) -> None:
        """Wait for the device, and have it let go of the lines that kernels asked to be kept."""
        torch.cuda.synchronize()
        kept_lines.let_go()

    def read(self) -> None:
        """Enqueue the reads on the current stream."""
        for _ in range(self.reads):
            torch.amax(self.buffer)


def make_flush(nbytes: int) -> Flush:
    """A flush of that many bytes on the current device."""
    return Flush(torch.ones(nbytes // 4, dtype=torch.float32, device="cuda"))


def flush_size(target: Target) -> int:
    """Bytes that evict the last-level cache: twice the largest cache known, 256 MiB at least.

    Where no cache is known, or an Infinity Cache may be there that neither device nor
    catalogue tells of (as of a partition), twice the largest there is.
    """
    largest = largest_cache(target)
    hidden = may_have_infinity_cache(target.architecture) and not target.last_level_cache_mib
    return max(2 * largest, DEFAULT_FLUSH_BYTES if hidden or not largest else MIN_FLUSH_BYTES)


def largest_cache(target: Target) -> int:
    """Bytes of the largest cache that the device or the catalogue knows; 0 where neither does.

    The device doesn't tell of AMD's Infinity Cache.
    """
    mib = [size for size in (target.l2_mib, target.last_level_cache_mib) if size]
    l2 = int(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0))
    return max([l2, *(int(size * (1 << 20)) for size in mib)])


# --------------------------------------------------------------------------
# Proof

PROBED_BYTES = 2 << 20
"""Buffer of the probe: fits the last-level cache of every GPU that Triton serves."""

COLD_BYTES = 2 << 30
"""Flush that makes the probe's buffer cold beyond doubt: eight times the largest cache there is."""

_BLOCK = 4096  # elements that a block reads to be kept
_LINES = 2048  # of the probe's buffer, read one after the other
_REPEATS = 5
_CONTRAST = 1.2  # of cold to warm, below which the probe tells nothing
_SHARE = 0.9  # of the way from warm to cold


def evicts(flush: Callable[[], object]) -> bool | None:
    """Whether a buffer that was in the caches is no longer there after the flush.

    One warp reads lines all over the buffer, each address dependent on the value read
    before, so its time is the sum of their latencies. It is taken right after the buffer
    was read (warm), after a flush of :data:`COLD_BYTES` (cold), and after ``flush``: evicted
    is what comes nine tenths of the way from warm to cold. So must a buffer whose reader asked the cache
    to keep it.

    Args:
        flush: what is to be proved.

    Returns:
        None where warm and cold cannot be told apart on this device.
    """
    buffer = torch.zeros(PROBED_BYTES // 4, dtype=torch.int32, device="cuda")
    warm, cold = (latency_ms(buffer, each) for each in (lambda: None, make_flush(COLD_BYTES)))
    if cold < _CONTRAST * warm:
        return None
    flushed = min(latency_ms(buffer, flush, reader) for reader in (torch.amax, read_to_be_kept))
    return flushed >= warm + _SHARE * (cold - warm)


def latency_ms(
    buffer: torch.Tensor, before: Callable[[], object], reader: Callable[[torch.Tensor], object] = torch.amax
) -> float:
    """Median time of a walk over a buffer of zeros that ``reader`` read just before ``before``."""
    _walk[(1,)](buffer, buffer, buffer.numel() // _LINES, LINES=_LINES, num_warps=1)
    return statistics.median(_one_walk(buffer, before, reader) for _ in range(_REPEATS))


def read_to_be_kept(buffer: torch.Tensor) -> None:
    """Read a buffer of zeros and ask the cache to keep it for longest."""
    blocks = triton.cdiv(buffer.numel(), _BLOCK)
    _load_to_be_kept[(blocks,)](buffer, buffer, buffer.numel(), BLOCK=_BLOCK, num_warps=8)


def _one_walk(buffer: torch.Tensor, before: Callable[[], object], reader: Callable[[torch.Tensor], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    reader(buffer)
    before()
    start.record()
    _walk[(1,)](buffer, buffer, buffer.numel() // _LINES, LINES=_LINES, num_warps=1)
    end.record()
    torch.cuda.synchronize()
    elapsed: float = start.elapsed_time(end)
    return elapsed


@triton.jit  # type: ignore[untyped-decorator]
def _load_to_be_kept(buffer, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """The store, for whose sake the loads are made, is never made itself: all values are 0."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(buffer + place, mask=place < count, other=0, eviction_policy="evict_last"))
    tl.store(out, total, mask=total != 0)


@triton.jit  # type: ignore[untyped-decorator]
def _walk(buffer, out, step, LINES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """Reads ``LINES`` places, ``step`` elements apart, one after the other; all values are 0."""
    place = tl.load(buffer)
    for _ in range(LINES):
        place += step + tl.load(buffer + place)  # the sum makes the next address wait for this value
    tl.store(out, place - LINES * step)
