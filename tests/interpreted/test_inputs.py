"""Inputs and hashes have known bits, whatever the chunks."""

from __future__ import annotations

import hashlib

import pytest
import torch

from portkit.model import digest
from portkit.run import inputs
from portkit.run.inputs import InputMaker, hash_tensors

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15

FROZEN = {
    "float64": "4ee2bc52af49299a",
    "float32": "55c6b5c7997929d3",
    "float16": "875e354d05658967",
    "bfloat16": "5647d6b2c6249fdc",
    "float8_e4m3fn": "e435c18a74fda54b",
}


def mix64(z):
    """SplitMix64 in Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def words(seed, stream, count):
    text = f"portkit inputs 1: seed {seed}, stream {stream}"
    start = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    return [mix64((start + i * GOLDEN) & MASK) for i in range(count)]


def test_python_integers_agree_with_published_splitmix64():
    assert mix64(GOLDEN) == 0xE220A8397B1DCDAF  # first output of seed 0
    assert mix64(2 * GOLDEN & MASK) == 0x6E789E6AA1B965F4


def test_uniform_is_the_documented_function_of_seed_stream_and_index():
    make = InputMaker(seed=7)
    make.full((3,), "float32", 1.0)  # takes no stream
    first, second = make.uniform((40,), "float64"), make.uniform((2, 20), "float64", low=0.0, high=3.0)
    assert first.tolist() == [(w >> 40) / 2**24 * 2.0 - 1.0 for w in words(7, 0, 40)]
    assert second.flatten().tolist() == [(w >> 40) / 2**24 * 3.0 for w in words(7, 1, 40)]


def test_integers_are_the_documented_function():
    made = InputMaker(seed=1).integers((50,), "int16", -3, 4)
    assert made.tolist() == [((w >> 33) * 7 >> 31) - 3 for w in words(1, 0, 50)]
    assert set(made.tolist()) == set(range(-3, 4))


@pytest.mark.parametrize("dtype", FROZEN)
def test_bits_are_frozen(dtype):
    assert hash_tensors({"x": InputMaker(0).uniform((1013,), dtype)}) == FROZEN[dtype]


def test_chunks_do_not_change_bits(monkeypatch):
    whole = InputMaker(3).uniform((1000,), "bfloat16")
    before = hash_tensors({"x": whole})
    monkeypatch.setattr(inputs, "_CPU_CHUNK", 7)
    assert torch.equal(InputMaker(3).uniform((1000,), "bfloat16"), whole)
    assert hash_tensors({"x": whole}) == before


def test_uniform_spreads_evenly_over_its_range():
    made = InputMaker(0).uniform((100_000,), "float32", low=-4.0, high=4.0)
    assert float(made.min()) >= -4.0
    assert float(made.max()) < 4.0
    counts = torch.histc(made, bins=10, min=-4, max=4)
    assert float((counts - 10_000).abs().max()) < 400  # more than four standard deviations of 95


def test_meta_device_only_allocates():
    made = InputMaker(0, "meta").uniform((1 << 40, 4), "float16")
    assert (made.device.type, made.shape, made.dtype) == ("meta", (1 << 40, 4), torch.float16)


def test_empty_integer_range_is_refused():
    with pytest.raises(ValueError, match=r"\[5, 5\): the range must hold 1 to 2\^31 values"):
        InputMaker(0).integers((2,), "int32", 5, 5)


def test_hash_is_the_documented_sum():
    data = torch.arange(21, dtype=torch.uint8)  # three words, the last filled up
    raw = bytes(range(21)) + bytes(3)
    parts = [int.from_bytes(raw[i : i + 8], "little") for i in range(0, 24, 8)]
    total = sum(mix64((w + (i + 1) * GOLDEN) & MASK) for i, w in enumerate(parts)) & MASK
    assert hash_tensors({"x": data}) == digest([["x", "torch.uint8", [21], f"{total:016x}"]])


@pytest.mark.parametrize(
    "other",
    [
        {"x": torch.tensor([1.0, 3.0, 2.0])},  # swapped
        {"x": torch.tensor([1.0, 2.0, 3.0000002])},  # one bit
        {"x": torch.tensor([[1.0, 2.0, 3.0]])},  # shape
        {"x": torch.tensor([1.0, 2.0, 3.0]).view(torch.int32)},  # dtype
        {"y": torch.tensor([1.0, 2.0, 3.0])},  # name
        {"x": torch.tensor([1.0, 2.0, 3.0]), "eps": 1e-6},  # one more value
    ],
)
def test_hash_tells_tensors_apart(other):
    assert hash_tensors(other) != hash_tensors({"x": torch.tensor([1.0, 2.0, 3.0])})


def test_hash_sees_values_and_not_layout():
    base = torch.arange(35, dtype=torch.float32).view(5, 7)
    transposed = base.t().contiguous().t()
    shifted = torch.cat([torch.zeros(1), base.flatten()])[1:].view(5, 7)
    assert hash_tensors({"x": transposed}) == hash_tensors({"x": base}) == hash_tensors({"x": shifted})
