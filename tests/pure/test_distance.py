"""Distances between outputs of two runs, by hand."""

from __future__ import annotations

import base64
import json
import math
import struct
from dataclasses import replace

import factories
import pytest

from portkit.analysis.distance import distance, distances, ordinal, value
from portkit.analysis.rows import comparison
from portkit.model import SAMPLES, Evidence, sampled_positions
from portkit.render.table import render
from portkit.store.journal import Journal
from portkit.store.merge import merge


def printed(values, *, form="f", dtype="float32", input_hash="i" * 16, whole_hash=None):
    raw = struct.pack(f"<{len(values)}{form}", *values)
    output = {"name": "0", "dtype": dtype, "shape": [len(values)], "hash": whole_hash or raw.hex()}
    output["bits"] = base64.b64encode(raw).decode()
    return json.dumps({"input_hash": input_hash, "samples": SAMPLES, "outputs": [output]}).encode()


def test_neighbours_are_one_ulp_apart_across_zero():
    tiny = struct.unpack("<f", b"\x01\0\0\0")[0]
    (found,) = distance(printed([1.0, tiny, 2.0]), printed([1.0 + 2**-23, -tiny, 2.0]))
    assert (found.samples, found.differing, found.max_ulp, found.identical) == (3, 2, 2, False)
    assert found.max_abs == 2**-23
    assert found.max_rel == 2.0  # across zero


def test_zeros_of_either_sign_and_nans_of_any_payload_do_not_differ():
    (found,) = distance(printed([0.0, math.nan, 1.0]), printed([-0.0, -math.nan, 1.0]))
    assert (found.differing, found.max_ulp, found.max_abs, found.max_rel) == (0, 0, 0.0, 0.0)


def test_a_nan_beside_a_number_has_no_distance():
    (found,) = distance(printed([math.nan]), printed([1.0]))
    assert (found.differing, found.max_ulp, found.max_abs, found.max_rel) == (1, None, None, None)


def test_integers_count_steps():
    (found,) = distance(printed([3, -4], form="b", dtype="int8"), printed([3, -6], form="b", dtype="int8"))
    assert (found.max_ulp, found.max_abs) == (2, 2.0)


@pytest.mark.parametrize(
    ("dtype", "bits", "number"),
    [
        ("float16", 0x3C00, 1.0),
        ("bfloat16", 0xC049, -3.140625),
        ("float64", 0x3FF8000000000000, 1.5),
        ("float8_e5m2", 0x3C, 1.0),
        ("float8_e4m3fn", 0x7E, 448.0),
        ("float8_e4m3fn", 0x01, 2.0**-9),
        ("float8_e4m3fnuz", 0x7F, 240.0),
        ("float8_e5m2fnuz", 0x7F, 57344.0),
        ("uint8", 0xFF, 255.0),
        ("int16", 0xFFFF, -1.0),
    ],
)
def test_bits_of_each_dtype(dtype, bits, number):
    assert value(bits, dtype) == number


def test_nan_of_fp8():
    assert math.isnan(value(0xFF, "float8_e4m3fn"))
    assert math.isnan(value(0x80, "float8_e4m3fnuz"))


def test_ordinals_follow_the_order_of_numbers():
    steps = [0xFC00, 0xBC00, 0x8001, 0x8000, 0x0000, 0x0001, 0x3C00, 0x7C00]
    found = [ordinal(bits, "float16") for bits in steps]
    assert found == sorted(found)
    assert found[3] == found[4] == 0


def test_other_inputs_are_not_compared():
    with pytest.raises(ValueError, match="the inputs differ"):
        distance(printed([1.0]), printed([1.0], input_hash="j" * 16))


@pytest.mark.parametrize("count", [1, 1024, 1025, 4097, 16777216])
def test_sampled_positions_spread_over_the_output(count):
    positions = sampled_positions(count)
    assert len(positions) == len(set(positions)) == min(count, SAMPLES)
    assert positions == sorted(positions)
    assert positions[-1] < count
    assert all(count * i // SAMPLES <= p for i, p in enumerate(positions) if count > SAMPLES)


def report(folder, run_id, host_id, target, fingerprint, *, keep=True, variants=("w8",)):
    host = factories.host(host_id=host_id)
    header = factories.header(run_id=run_id, host=host)
    journal = Journal.create(folder, header)
    address = journal.store_blob("fingerprint", fingerprint) if keep else "0" * 64
    for variant in variants:
        of_cell = {"target": target, "variant": variant}
        record = factories.record(Evidence.MEASURED, run=header, blobs={"fingerprint": address}, **of_cell)
        journal.append(replace(record, host_id=host_id))
    journal.finish()


def test_a_merge_of_two_hosts_says_how_far_their_outputs_lie_apart(tmp_path):
    report(tmp_path / "a", "20260102T030405Z-0000000a", "a", "h200", printed([1.0] * 1024, whole_hash="x"))
    report(tmp_path / "b", "20260102T030406Z-0000000b", "b", "mi300x", printed([1.0 + 2**-22] * 1024, whole_hash="y"))
    dataset = merge([tmp_path])
    (found,) = distances(dataset)
    assert found.outputs[0].max_ulp == 2
    text = render(comparison(dataset), "plain")
    assert "h200 measured (run 20260102T030405Z-0000000a) and mi300x measured" in " ".join(text.split())
    assert "at most 2 ulp, 2.4e-07 absolute, 2.4e-07 relative over 1024 sampled elements" in " ".join(text.split())
    assert json.loads(render(comparison(dataset), "json"))["distances"][0]["outputs"][0]["max_ulp"] == 2


def test_every_variant_is_compared_with_itself(tmp_path):
    report(tmp_path / "a", "20260102T030405Z-0000000a", "a", "h200", printed([1.0]), variants=("w4", "w8"))
    report(tmp_path / "b", "20260102T030406Z-0000000b", "b", "mi300x", printed([2.0]), variants=("w8", "w16"))
    assert [each.variant for each in distances(merge([tmp_path]))] == ["w8"]


def test_a_missing_fingerprint_is_said(tmp_path):
    report(tmp_path / "a", "20260102T030405Z-0000000a", "a", "h200", printed([1.0]))
    report(tmp_path / "b", "20260102T030406Z-0000000b", "b", "mi300x", printed([1.0]), keep=False)
    (found,) = distances(merge([tmp_path]))
    assert found.outputs == ()
    assert "can't be read" in found.reason
    assert "outputs can't be compared: 1" in render(comparison(merge([tmp_path])), "github")
