"""Approximate functions of the emulator over whole binades, bit for bit those of an H200.

``nvidia_h200_functions.json`` has the arguments of ``scripts/record_functions.py``, and checksums of what an H200 gave.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from script_modules import script_module

from portkit.emulate.ptx.isa.interpolation import FUNCTIONS, SQUARED, SQUARES, interpolated, tables

SUMS = json.loads((Path(__file__).parents[1] / "records" / "nvidia_h200_functions.json").read_text())
MANY = 1 << 20

recording = script_module("record_functions")
fitting = script_module("fit_interpolation")


def spans():
    """With their checksums; those of many arguments are slow."""
    for saved, total in zip(SUMS["spans"], SUMS["sums"], strict=True):
        span = recording.Span(**saved)
        slow = span.bits(SUMS["seed"]).size > MANY
        name = f"{span.instruction} {span.first:x} to {span.last:x}"
        yield pytest.param(span, total, id=name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("span", "total"), list(spans()))
def test_results_are_those_of_an_h200(span, total):
    bits = span.bits(SUMS["seed"])
    name, *_, kind = span.instruction.split(".")
    if span.random or kind != "f32":
        found = recording.emulated(span.instruction, bits)
    else:  # normal numbers, whose results are normal: the function alone
        found = interpolated(name)(bits.view(np.float32)).view(np.uint32)
    assert zlib.crc32(found) == total


def test_squares_are_sums_of_products_of_bits():
    """Worked out bit by bit of a few numbers; never above the square, and less than 9·2^-15 below it."""
    for number in (0, 1, 2, 0b101 << 12, 0x5A5A, 0x7FFF):
        places = [place for place in range(1, SQUARED + 1) if number >> (SQUARED - place) & 1]
        products = [(a + b) for a in places for b in places if a + b <= SQUARED + (a != b)]
        assert SQUARES[number] == sum(2.0**-each for each in products)
    exact = (np.arange(1 << SQUARED) / (1 << SQUARED)) ** 2
    assert (exact >= SQUARES).all()
    assert (exact - SQUARES).max() < 9 * 2.0**-15


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_fit_finds_the_coefficients_again(name):
    """Of a segment of each table, from the results that it gives."""
    function = FUNCTIONS[name]
    first = {"ex2": 0x3F80_0000, "tanh": 0x3E80_0000}.get(name, 0x3F80_0000 if name in {"sin", "cos"} else 0x3FA0_0000)
    bits = np.arange(first, first + (1 << 17), 3, dtype=np.uint32)
    results = interpolated(name)(bits.view(np.float32)).view(np.uint32)
    found = fitting.points(name, bits, results)
    number = int(found.segment[found.segment.size // 2])
    row, missed = fitting.quadratic(found.of(number))
    assert missed == 0
    wanted = tables()[function.table][number]
    assert row[1:] == wanted[1:].tolist()
    assert abs(row[0] - wanted[0]) < 0.1


def test_a_recording_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "spans", lambda: [recording.Span("lg2.approx.ftz.f32", 1 << 29, (1 << 29) + 99, 3)])
    monkeypatch.setattr(recording, "_device", lambda: "a device")
    monkeypatch.setattr(
        recording, "_results", lambda name, bits: recording.exact(name, bits) + np.uint32(5) - bits % 11
    )
    np.savez(tmp_path / "some.npz", **recording.record(1))
    ((span, arguments, results),) = recording.read(tmp_path / "some.npz")
    assert np.array_equal(arguments, span.bits(1))
    assert np.array_equal(results, recording.exact(span.instruction, arguments) + np.uint32(5) - arguments % 11)
