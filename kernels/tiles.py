"""How the cases with matrix products are cut: their tunables, and what of them fits a device.

Tunables are plain values of a variant. Those of one architecture stand beside the others under
its name, so that one variant, ``best``, holds the fastest that is known on each without a branch in
a kernel or a host function: ``{"block_m": 64, "by_architecture": {"sm_90": {"block_m": 128}}}``.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
import triton

ROOMY = 192 * 1024  # bytes of shared memory a block that only sm_90 and sm_100 have
FEW_ROWS = 16
BARRIERS = 256  # bytes that a pipelined loop may take for its barriers


Grid = Callable[[dict[str, Any]], tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Tunables of a product; the defaults build without spills on every target of the suite."""

    block_m: int = 64  # rows of a tile; fewer where the matrix has not so many
    block_n: int = 64  # columns of a tile
    block_k: int = 32  # terms a step, of 16-bit elements; half as many of float32
    group: int = 8  # rows of tiles walked together
    descriptors: bool = False  # load and store through tensor descriptors where rows begin on 16 bytes
    specialize: bool = False  # with descriptors, ask for producer and consumer warps
    parts: int = 1  # in which a tile is finished: 1, 2 or 4
    walk: bool = False  # as many programs as there are units, each of which walks over tiles
    flatten: bool = False  # make one loop of those over tiles and over K
    num_warps: int = 8  # warps (wavefronts) of a program; of a consumer where there are producers
    num_stages: int = 3  # most stages of the loop over K; fewer where shared memory is small
    tuned: bool = False  # let the autotuner choose; then nothing above counts

    def __post_init__(self) -> None:
        if self.parts not in {1, 2, 4}:
            raise ValueError(f"parts is {self.parts}, not 1, 2 or 4")

    @classmethod
    def settled(cls, tunables: Mapping[str, Any], rows: int, *operands: torch.Tensor) -> Self:
        """Tunables for these matrices: the defaults where descriptors are asked for and can't be had.

        Args:
            tunables: of a variant; those under ``few_rows`` go before the others where a tile has at most 16 rows.
            rows: of the result, or of a group of it.
            operands: what descriptors would be made of.
        """
        own = for_architecture(tunables, operands[0].device)
        few = own.pop("few_rows", {})
        tiles = cls(**own | (few if rows <= FEW_ROWS else {}))
        tiles = dataclasses.replace(tiles, specialize=tiles.specialize and tiles.descriptors)
        if tiles.descriptors and not describable(*operands):
            return cls()
        if tiles.descriptors or tiles.tuned:
            allow_descriptors()
        return tiles

    def fitted(self, x: torch.Tensor, rows: int, finished: int = 0) -> Self:
        """The same, with a tile of no more rows than there are and a loop that fits shared memory.

        Args:
            x: an operand.
            rows: that there are.
            finished: bytes an element of a finished part that lie in shared memory beside the loop.
        """
        size = x.element_size()
        block_m = min(self.block_m, max(16, triton.next_power_of_2(rows)))
        beside = block_m * self.block_n // self.parts * finished if self.descriptors else 0
        wanted = max(16, self.block_k * 2 // size)
        per_k = (block_m + self.block_n) * size
        block_k, stages = fitting_loop(x.device, wanted, self.num_stages, per_k, beside, ahead=self.descriptors)
        return dataclasses.replace(self, block_m=block_m, block_k=block_k, num_stages=stages)

    def even(self, terms: int) -> bool:
        """Whether a loop over so many terms has no last step that is shorter, whichever way it is tuned."""
        return terms % (64 if self.tuned else self.block_k) == 0

    def programs(
        self, device: torch.device, tiles: Callable[[int, int], int]
    ) -> Callable[[dict[str, Any]], tuple[int]]:
        """A launch's grid: a program a tile; with descriptors as many as there are units, which walk the tiles.

        Args:
            device: of the launch.
            tiles: their number for the rows and columns of one.
        """

        def grid(meta: dict[str, Any]) -> tuple[int, ...]:
            count = tiles(meta["BLOCK_M"], meta["BLOCK_N"])
            return (min(count, units(device)) if meta["DESCRIPTORS"] else count,)

        return grid

    def launch(self, *flags: str) -> dict[str, Any]:
        """Keywords of a launch: blocks, flags by their names in lower case, options; none where it is tuned."""
        if self.tuned:
            return {}
        blocks = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "DESCRIPTORS", *flags)
        constants = {name: getattr(self, name.lower()) for name in blocks}
        return {**constants, "num_warps": self.num_warps, "num_stages": self.num_stages}


PORTABLE = {"block_m": 64, "block_n": 64, "block_k": 32, "num_warps": 8, "num_stages": 3}
"""A product's tiles that build without spills on every target of the suite."""

NARROW = {
    "block_m": 16,
    "block_n": 128,
    "block_k": 64,
    "descriptors": False,
    "parts": 1,
    "flatten": False,
    "num_warps": 4,
    "num_stages": 4,
}
"""For a few rows on a GPU whose large products go by whole warp groups: many programs that read the weights."""

TUNED = (
    Tiles(128, 128, 32),
    Tiles(128, 256, 64),
    Tiles(64, 128, 32, num_warps=4),
    Tiles(16, 128, 64, num_warps=4),
    Tiles(128, 128, 64, descriptors=True, num_warps=4),
    Tiles(128, 256, 64, group=16, descriptors=True, flatten=True, parts=2, num_stages=3),
)


def autotuned(
    kernel: Any,
    *flags: str,
    matrices: Sequence[str],
    key: Sequence[str] = ("M", "N", "K"),
    tried: Sequence[Tiles] = TUNED,
) -> Any:
    """A kernel that tries some tiles and keeps the fastest.

    Args:
        kernel: takes BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS and the flags.
        flags: what else of the tiles it takes.
        matrices: arguments that descriptors are made of.
        key: arguments for each of whose values it tries again.
        tried: the tiles.
    """

    def legal(configs: list[triton.Config], named: dict[str, Any], **_: object) -> list[triton.Config]:
        allowed = describable(*(named[name] for name in matrices))
        return [c for c in configs if allowed or not c.kwargs["DESCRIPTORS"]]

    configs = [_config(tiles.launch(*flags)) for tiles in tried]
    return triton.autotune(configs, key=list(key), prune_configs_by={"early_config_prune": legal})(kernel)


def _config(launch: dict[str, Any]) -> triton.Config:
    options = {name: launch.pop(name) for name in ("num_warps", "num_stages")}
    return triton.Config(launch, **options)


def for_architecture(tunables: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Tunables of a variant for a device: those of its architecture before the others."""
    own = dict(tunables)
    special = own.pop("by_architecture", {})
    return own | special.get(architecture(device), {}) if special else own


def architecture(device: torch.device) -> str:
    """``sm_90``, ``gfx942``; empty where kernels are interpreted."""
    if device.type != "cuda":
        return ""
    target = triton.runtime.driver.active.get_current_target()
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)


def units(device: torch.device) -> int:
    """Multiprocessors or compute units of a device; 1 where kernels are interpreted."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def warp_size(device: torch.device) -> int:
    """Threads of a warp (wavefront); 32 where kernels are interpreted."""
    return torch.cuda.get_device_properties(device).warp_size if device.type == "cuda" else 32


def fitting_loop(
    device: torch.device,
    block_k: int,
    stages: int,
    bytes_per_k: int,
    other_bytes: int = 0,
    *,
    ahead: bool = False,
) -> tuple[int, int]:
    """Terms a step and stages of a loop whose buffers fit into a block's shared memory.

    Two stages are the fewest. They take one buffer on most targets; on sm_90 and sm_100, which
    have the room, two, since products read them while they are being filled, and two where tiles
    are copied ahead. Where these don't fit, a step takes fewer terms, at least 16.

    Args:
        device: of the launch.
        block_k: terms a step that are wanted.
        stages: wanted.
        bytes_per_k: shared memory of one term of one stage.
        other_bytes: shared memory that is taken at the same time.
        ahead: tiles are loaded through descriptors.
    """
    if device.type != "cuda":
        return block_k, 2
    limit, buffers = shared_bytes(device), 2 if ahead or roomy(device) else 1
    limit -= BARRIERS if roomy(device) else 0
    while block_k > 16 and buffers * block_k * bytes_per_k + other_bytes > limit:
        block_k //= 2
    return block_k, max(2, min(stages, (limit - other_bytes) // (block_k * bytes_per_k)))


def shared_bytes(device: torch.device) -> int:
    """The most shared memory of a block."""
    properties = torch.cuda.get_device_properties(device)
    # PyTorch for ROCm has no opt-in limit; there the plain one is the whole.
    return getattr(properties, "shared_memory_per_block_optin", 0) or properties.shared_memory_per_block


def roomy(device: torch.device) -> bool:
    """Whether a block has the shared memory of sm_90 and sm_100, where a product's left side may stay in registers."""
    return device.type == "cuda" and shared_bytes(device) > ROOMY


def describable(*tensors: torch.Tensor) -> bool:
    """Whether all of them are read through tensor descriptors: rows and start on 16 bytes, elements of 16 bits.

    A product of float32 without tensor cores has no use for whole tiles in shared memory; on sm_90
    Triton 3.7.1 gives such a loop 32 registers a thread and spills the rest.
    """
    return all(
        t.element_size() == 2
        and t.data_ptr() % 16 == 0
        and all(stride * 2 % 16 == 0 for stride in t.stride()[:-1])
        and t.shape[-1] > 0
        for t in tensors
    )


def allow_descriptors() -> None:
    """Give Triton memory for the descriptors that kernels make."""
    triton.set_allocator(_bytes)


def _bytes(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


def best(portable: Mapping[str, Any], **by_architecture: Mapping[str, Any]) -> dict[str, Any]:
    """A variant with the fastest tunables that are known of each architecture, and portable ones for the others."""
    return {**portable, "by_architecture": {name: dict(values) for name, values in by_architecture.items()}}
