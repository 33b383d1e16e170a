"""The lines of a report: round trip, checksum, types, versions."""

import dataclasses
import hashlib
import json
import math

import pytest
from factories import build, header, launch, record, verdict

from portkit.errors import ReportError
from portkit.model import SCHEMA_VERSION, End, Evidence, Status
from portkit.store import schema


def read_line(line: bytes, version: int = SCHEMA_VERSION):
    kind, body = schema.parse(line, "r.jsonl:2")
    return schema.decode(kind, body, version, "r.jsonl:2")


def changed(line: bytes, **fields) -> bytes:
    """The line with other fields and the checksum that fits them."""
    body = {**json.loads(line), **fields}
    kind = body.pop("kind")
    del body["sum"]
    return signed(kind, body)


def signed(kind: str, body: dict) -> bytes:
    """A line of these fields with its checksum, worked out apart from the code under test."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    total = hashlib.sha256(f"{kind} {canonical}".encode()).hexdigest()[:12]
    return json.dumps({"kind": kind, **body, "sum": total}).encode() + b"\n"


VALUES = [
    header(),
    *(record(evidence) for evidence in Evidence),
    record(build=build(launch(options={"fp8": ("e4m3", "e5m2")}), launch(percent=50))),
    End("r", 2, {"built": 2}, "2026-01-02T03:04:05+00:00"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_equal_after_a_round_trip(value):
    line = schema.encode(value)
    assert line.endswith(b"}\n")
    assert read_line(line) == value


def test_an_infinite_error_survives():
    back = read_line(schema.encode(record(Evidence.MEASURED, verdict=verdict(math.inf))))
    assert back.verdict.outputs[0].fused_error == math.inf


def test_other_key_order_and_spaces_do_no_harm():
    body = json.loads(schema.encode(header()))
    text = json.dumps(dict(sorted(body.items())), indent=None, separators=(", ", ": "))
    assert read_line(text.encode()) == header()


def test_an_edit_by_hand_is_found():
    line = schema.encode(record()).replace(b'"registers_per_thread":32', b'"registers_per_thread":31')
    with pytest.raises(ReportError, match=r"r\.jsonl:2: the checksum is wrong"):
        read_line(line)


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"seconds": "0.5"}, "seconds", "valid number, found '0.5'"),
        ({"outcome": {"status": "pased"}}, "outcome.status", "found 'pased'"),
        ({"surprise": 1}, "surprise", "Unexpected"),
        ({"cell": {}}, "cell.case", "required"),
        ({"host_id": None}, "host_id", "valid string"),
    ],
)
def test_a_wrong_field_is_named(fields, place, words):
    with pytest.raises(ReportError) as caught:
        read_line(changed(schema.encode(record()), **fields))
    assert caught.value.place == f"r.jsonl:2: {place}"
    assert words in caught.value.message


def test_a_value_that_no_reader_would_take_is_not_written():
    with pytest.raises(ReportError, match="record not written: seconds"):
        schema.encode(dataclasses.replace(record(), seconds="long"))


@pytest.mark.parametrize("value", [{("a", 1): 2}, 10**5000], ids=["an odd key", "too long a number"])
def test_what_json_has_not_is_refused_by_name(value):
    with pytest.raises(ReportError, match="can't be stored"):
        schema.plain({"value": value})


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize(("opens", "closes"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_nested_lines_are_refused(depth, opens, closes):
    line = b'{"kind":"header","a":' + opens * depth + b"1" + closes * depth + b"}"
    with pytest.raises(ReportError, match=r"r\.jsonl:2: (not a line of a report|the checksum is wrong)"):
        read_line(line)


@pytest.mark.parametrize("stated", [None, "1", True, 0])
def test_a_header_without_a_version_is_refused(stated):
    with pytest.raises(ReportError, match="no schema version"):
        schema.check_version({"schema": stated}, "r.jsonl:1")


def test_an_older_version_goes_through_each_upgrade_in_turn(monkeypatch):
    """As if the present layout were 3, and 1 had called the driver's version ``gpu_driver``."""

    def rename_driver(kind, body):
        if kind != "header":
            return body
        host = {**body["host"], "driver": body["host"]["gpu_driver"]}
        return {**body, "host": {key: value for key, value in host.items() if key != "gpu_driver"}}

    def add_tier(kind, body):
        assert "gpu_driver" not in body.get("host", {})
        return {**body, "tier": "quick"} if kind == "header" else body

    monkeypatch.setattr(schema, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(schema, "UPGRADES", {1: rename_driver, 2: add_tier})
    body = schema.plain(header())
    old_host = {"gpu_driver": body["host"].pop("driver"), **body["host"]}
    old = {**{k: v for k, v in body.items() if k != "tier"}, "host": old_host}
    assert read_line(signed("header", old), version=1) == dataclasses.replace(header(), schema=3)


def test_the_status_of_a_record_is_an_enum_again():
    assert read_line(schema.encode(record())).outcome.status is Status.BUILT


def test_a_line_reads_alike_as_written_and_with_its_keys_in_another_order():
    line = schema.encode(record(Evidence.MEASURED))
    body = json.loads(line)
    turned = json.dumps(dict(reversed(body.items()))).encode()
    expected = (record(Evidence.MEASURED), body["sum"])
    assert schema.read(line, SCHEMA_VERSION, "r:2") == expected
    assert schema.read(turned, SCHEMA_VERSION, "r:2") == expected
    assert schema.sealed("record", {k: v for k, v in body.items() if k not in ("kind", "sum")}) == line


@pytest.mark.parametrize(("old", "new"), [(b"softmax", b"softmix"), (b"4096", b"4095"), (b'"sum":"', b'"sum":"0')])
def test_a_byte_changed_in_a_line_as_written_is_found(old, new):
    line = schema.encode(record())
    assert old in line
    with pytest.raises(ReportError, match="checksum"):
        schema.read(line.replace(old, new, 1), SCHEMA_VERSION, "r:2")


def test_line_ends_of_unicode_are_newlines():
    assert schema.clean("one\u2028two\u2029three\r\nfour") == "one\ntwo\nthree\nfour"
