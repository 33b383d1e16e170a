"""The host's launch tax: what launching an empty Triton kernel costs, alone and in a graph."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import triton

from portkit.run.ceilings.fastest import Reached

LAUNCHES = 1000
NODES = 200
REPLAYS = 10
REPEATS = 10  # a shared host launches at half its speed now and then


def launch_us() -> Reached:
    """µs of wall clock per launch of many in a row, until the device has done them all; the best of a few times."""
    return Reached(_best_us(_launch_many, LAUNCHES), f"empty Triton kernel, {LAUNCHES} launches in a row")


def graph_launch_us() -> Reached:
    """µs per node of a replayed CUDA or HIP graph of such kernels."""
    _nothing[(1,)]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(NODES):
            _nothing[(1,)]()

    def replay() -> None:
        for _ in range(REPLAYS):
            graph.replay()

    return Reached(_best_us(replay, NODES * REPLAYS), f"empty Triton kernel, {NODES} nodes, {REPLAYS} replays in a row")


def _best_us(run: Callable[[], None], launches: int) -> float:
    run()
    torch.cuda.synchronize()
    return min(_seconds(run) for _ in range(REPEATS)) / launches * 1e6


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _launch_many() -> None:
    for _ in range(LAUNCHES):
        _nothing[(1,)]()


@triton.jit
def _nothing():  # type: ignore[no-untyped-def]  # noqa: ANN202
    pass
