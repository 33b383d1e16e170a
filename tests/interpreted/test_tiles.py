"""Tunables of products: those of an architecture, of few rows and of wide heads, and loops that fit shared memory."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

KERNELS = Path(__file__).parents[2] / "kernels"
CUDA = torch.device("cuda")


@pytest.fixture(scope="module")
def shared():
    """The modules that kernel files share, loaded as they load them."""
    sys.path.insert(0, str(KERNELS))
    import flash_attention
    import tiles

    yield SimpleNamespace(tiles=tiles, attention=flash_attention)
    sys.path.remove(str(KERNELS))
    for name in ("flash_attention", "products", "tiles", "arguments"):
        sys.modules.pop(name, None)


def matrix(rows, dtype=torch.bfloat16):
    return torch.zeros((rows, 64), dtype=dtype)


def test_tunables_of_the_architecture_go_first(shared, monkeypatch):
    tunables = shared.tiles.best({"block_m": 32, "num_warps": 8}, sm_90={"block_m": 128})
    seen = []
    for name in ("sm_90", "gfx942"):
        monkeypatch.setattr(shared.tiles, "architecture", lambda device, name=name: name)
        tiles = shared.tiles.Tiles.settled(tunables, 4096, matrix(4096))
        seen.append((tiles.block_m, tiles.num_warps))
    assert seen == [(128, 8), (32, 8)]


@pytest.mark.parametrize(("rows", "columns"), [(16, 128), (17, 256)])
def test_few_rows_have_tiles_of_their_own(shared, rows, columns):
    tunables = {"block_n": 256, "few_rows": {"block_n": 128}}
    assert shared.tiles.Tiles.settled(tunables, rows, matrix(rows)).block_n == columns


def test_without_descriptors_the_tiles_are_the_portable_ones(shared):
    tunables = {"block_m": 128, "descriptors": True, "specialize": True}
    wide, narrow = (shared.tiles.Tiles.settled(tunables, 64, matrix(64, t)) for t in (torch.bfloat16, torch.float32))
    assert (wide.block_m, wide.descriptors, wide.specialize) == (128, True, True)
    assert narrow == shared.tiles.Tiles()


@pytest.mark.parametrize(("dim", "rows"), [(128, 64), (256, 128)])
def test_wide_heads_have_blocks_of_their_own(shared, dim, rows):
    query = torch.zeros((1, 1, 4, dim), dtype=torch.bfloat16)
    tunables = {"block_m": 64, "wide_heads": {"block_m": 128}}
    assert shared.attention.Blocks.settled(tunables, query).block_m == rows


@pytest.mark.parametrize(("keys", "queries"), [(False, False), (True, False), (False, True), (True, True)])
def test_gradients_have_memory_for_the_descriptors_of_either_launch(shared, monkeypatch, keys, queries):
    launches, allowed = {}, []
    for name in ("_row_dots", "_backward_keys", "_backward_queries"):

        def launch(*_, name=name, **given):
            launches[name] = given.get("DESCRIPTORS")

        monkeypatch.setattr(shared.attention, name, {(1, 1): launch})
    monkeypatch.setattr(shared.attention, "allow_descriptors", lambda: allowed.append(True))
    blocks = shared.attention.Blocks(back_descriptors=keys, back_queries={"back_descriptors": queries})
    tensors = (torch.zeros((1, 1, 8, 64), dtype=torch.bfloat16) for _ in range(5))
    shared.attention._run_backward(*tensors, torch.zeros((1, 1, 8)), True, 1.0, blocks)
    assert launches == {"_row_dots": None, "_backward_keys": keys, "_backward_queries": queries}
    assert bool(allowed) == (keys or queries)


@pytest.mark.parametrize(
    ("bytes_per_block", "beside", "fitted"),
    [
        (232448, 0, (64, 4)),  # four stages of 48 KiB and the barriers in 227 KiB
        (232448, 65536, (64, 3)),  # beside two halves of a tile
        (101376, 0, (64, 2)),
        (65536, 0, (64, 2)),  # one buffer of 48 KiB
        (65536, 32768, (32, 2)),  # half the terms, 24 KiB
    ],
)
def test_a_loop_fits_shared_memory(shared, monkeypatch, bytes_per_block, beside, fitted):
    properties = SimpleNamespace(shared_memory_per_block_optin=bytes_per_block, shared_memory_per_block=49152)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert shared.tiles.fitting_loop(CUDA, 64, 4, (128 + 256) * 2, beside) == fitted


def test_tiles_that_are_copied_ahead_have_two_buffers(shared, monkeypatch):
    properties = SimpleNamespace(shared_memory_per_block_optin=101376, shared_memory_per_block=49152)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    plain, ahead = (shared.tiles.fitting_loop(CUDA, 64, 3, 768, 65536, ahead=ahead) for ahead in (False, True))
    assert (plain, ahead) == ((32, 2), (16, 2))


def test_a_device_without_an_opt_in_limit_has_its_plain_one(shared, monkeypatch):
    properties = SimpleNamespace(shared_memory_per_block=65536)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert shared.tiles.shared_bytes(CUDA) == 65536
    assert not shared.tiles.roomy(CUDA)
