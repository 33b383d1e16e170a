"""Where elements lie in registers and shared memory, against the formulas that the PTX document states."""

import numpy as np
import pytest

from portkit.emulate.ptx.isa.operands_shared import layout_of
from portkit.emulate.ptx.matrix import fragments
from portkit.emulate.ptx.matrix.formats import FORMATS
from portkit.emulate.ptx.matrix.instruction_descriptor import product_of
from portkit.emulate.ptx.matrix.layouts import Layout, swizzled
from portkit.emulate.ptx.tensormap import DRIVER_ELEMENTS, Element, TensorMap

LANE = np.arange(32)
GROUP, PLACE = LANE >> 2, LANE & 3


@pytest.mark.parametrize(("kind", "depth"), [("f16", 16), ("bf16", 8), ("tf32", 8), ("e4m3", 32), ("e2m1", 64)])
def test_fragments_of_factors(kind, depth):
    form = FORMATS[kind]
    per = 32 // form.bits
    rng = np.random.default_rng(0)
    left = rng.integers(0, 1 << 32, (16 * depth // per // 32, 3, 32), dtype=np.uint64).astype(np.uint32)
    right = left[: left.shape[0] // 2]
    rows, columns = fragments.rows_of_left(left, form, 16), fragments.columns_of_right(right, form)
    assert (rows.shape, columns.shape) == ((depth, 16, 3), (depth, 8, 3))
    for register in range(left.shape[0]):
        for part in range(per):
            code = left[register] >> np.uint32(part * form.bits) & np.uint32((1 << form.bits) - 1)
            row, at = GROUP + 8 * (register % 2), 4 * per * (register // 2) + PLACE * per + part
            assert np.array_equal(rows[at, row].T, code)
    for register in range(right.shape[0]):
        for part in range(per):
            code = right[register] >> np.uint32(part * form.bits) & np.uint32((1 << form.bits) - 1)
            assert np.array_equal(columns[4 * per * register + PLACE * per + part, GROUP].T, code)


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_fragments_of_results(columns):
    values = np.arange(columns // 2 * 2 * 32).reshape(columns // 2, 2, 32)
    matrix = fragments.tile(values, 16)
    for register in range(columns // 2):
        row, column = GROUP + 8 * (register // 2 % 2), register // 4 * 8 + 2 * PLACE + register % 2
        assert np.array_equal(matrix[row, column].T, values[register])
    assert np.array_equal(fragments.registers(matrix), values)


def test_fragments_of_half_results():
    words = np.arange(4 * 32, dtype=np.uint32).reshape(4, 1, 32) * 0x0003_0005
    matrix = fragments.tile_of_halves(words, 16).view(np.uint16)
    for register in range(4):
        row, column = GROUP + 8 * (register % 2), register // 2 * 8 + 2 * PLACE
        assert np.array_equal(matrix[row, column, 0], words[register, 0] & 0xFFFF)
        assert np.array_equal(matrix[row, column + 1, 0], words[register, 0] >> 16)
    assert np.array_equal(fragments.registers_of_halves(matrix.view(np.float16)), words)


@pytest.mark.parametrize(("width", "rows"), [(32, 2), (64, 4), (128, 8)])
def test_swizzles_move_units_within_rows(width, rows):
    at = np.arange(0, 1024, 16)
    moved = swizzled(at, width)
    assert sorted(moved) == list(at)
    assert np.array_equal(moved // width, at // width)
    assert np.array_equal(moved[: width // 16], at[: width // 16])
    row = at // 128 % (width // 16)
    assert np.array_equal(moved // 16 % (width // 16), at // 16 % (width // 16) ^ row)
    assert len(set(row)) == rows


def test_operands_of_contiguous_depth():
    layout = Layout(start=64, leading=256, stride=512, width=128, contiguous_depth=True)
    units = layout.units(16, 32)
    for row in range(16):
        for unit in range(2):
            plain = 64 + row // 8 * 512 + row % 8 * 128 + unit * 16
            assert units[row, unit] == plain ^ (plain >> 7 & 7) << 4
    plain = Layout(0, 128, 256, 16, contiguous_depth=True).units(16, 32)
    assert plain[9, 1] == 256 + 16 + 128


def test_operands_of_contiguous_rows():
    units = Layout(0, 4096, 1024, 128, contiguous_depth=False).units_across(16, 256)
    plain = 4096 + 3 * 16 + 1024 + 5 * 128  # unit 11 at depth 13
    assert units[13, 11] == plain ^ (plain >> 7 & 7) << 4


def test_descriptors():
    word = 0x40 | 2 << 16 | 64 << 32
    assert layout_of(word | 1 << 62, across=False, sm100=False) == Layout(0x400, 32, 1024, 128, True)
    assert layout_of(word | 2 << 62, across=True, sm100=False) == Layout(0x400, 32, 1024, 64, False)
    assert layout_of(word | 6 << 61, across=False, sm100=True) == Layout(0x400, 32, 1024, 32, True)
    assert "base offset" in layout_of(word | 1 << 49, across=False, sm100=False)
    assert "swizzle mode" in layout_of(word | 1 << 61, across=False, sm100=True)


def test_instruction_descriptors():
    plain = product_of("f16", 1 << 4 | 1 << 7 | 1 << 10 | 1 << 15 | 8 << 17 | 8 << 24)
    assert (plain.rows, plain.columns, plain.left.name, plain.result) == (128, 64, "bf16", "f32")
    assert plain.across == (True, False)
    scaled = product_of("mxf8f6f4", 0x28A0_1410)
    assert (scaled.rows, scaled.columns, scaled.left.name, scaled.right.name) == (128, 128, "e4m3", "e2m1 in units")
    assert (scaled.scale_kind, scaled.scale_bytes) == ("ue8m0", (1, 1))
    assert product_of("f16", 1 << 2) == "a sparse product"
    assert "types" in product_of("tf32", 0)


def test_four_bit_elements_in_units_of_sixteen_bytes():
    unit = np.array([[0x7654_3210, 0xFEDC_BA98, 0, 0]], np.uint32)
    assert FORMATS["e2m1 in units"].codes(unit).tolist() == [list(range(16))]
    assert FORMATS["e2m1"].codes(unit[:, :2]).tolist() == [list(range(16))]


def test_tensor_maps_are_encoded_and_decoded():
    tensor = TensorMap(4096, Element.BF16, (100, 20, 3), (256, 5120), (64, 8, 1), 3, 1, 0, (1, 1, 1))
    raw = tensor.encode()
    assert len(raw) == 128
    assert TensorMap.decode(raw) == tensor
    assert TensorMap.decode(tensor.encode(address=64)).address == 64
    assert tensor.box_bytes == 64 * 8 * 2
    assert [DRIVER_ELEMENTS[n] for n in (6, 7, 9)] == [Element.F16, Element.F32, Element.BF16]
    assert (Element.TF32_FTZ.bytes, Element.S64.bytes) == (4, 8)
    with pytest.raises(ValueError, match="dimensions"):
        TensorMap.decode(bytes(8) + b"\x07" + bytes(119))
