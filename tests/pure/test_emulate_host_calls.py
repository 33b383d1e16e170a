"""The host's half of calls by a kernel: packets, messages of printf, constants beside the code."""

import struct

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import kernel

from portkit.emulate import run
from portkit.emulate.amdgcn.constants import ADDRESS, constants_of
from portkit.emulate.amdgcn.hostcalls import MOST_MESSAGES, HostCalls, buffer_bytes
from portkit.emulate.amdgcn.printf import formatted
from portkit.emulate.core.findings import Unsupported

BEGIN, END = 1, 2


def words(form, *arguments):
    """As a kernel sends them: strings in whole words with a zero behind, numbers in a word each."""
    raw = b""
    for each in (form, *arguments):
        if isinstance(each, str):
            raw += each.encode() + bytes(8 - len(each.encode()) % 8)
        else:
            raw += struct.pack("<d", each) if isinstance(each, float) else struct.pack("<Q", each % 2**64)
    return list(struct.unpack(f"<{len(raw) // 8}Q", raw))


@pytest.mark.parametrize(
    ("form", "arguments", "text"),
    [
        ("plain", (), "plain"),
        ("eight by", (), "eight by"),
        ("%d %i %u", (-1, -(2**31), 2**32 - 1), f"-1 {-(2**31)} {2**32 - 1}"),
        ("%hhd %hd %lld %zu", (0x1FF, 0x18000, -(2**63), 2**64 - 1), f"-1 -32768 {-(2**63)} {2**64 - 1}"),
        ("%x|%X|%#x|%o", (255, 255, 255, 8), "ff|FF|0xff|10"),
        ("%5d|%-5d|%05d|%+d", (42, 42, 42, 42), "   42|42   |00042|+42"),
        ("%f %.2f %e %g", (0.5, 1.005, 12345.0, 1e-5), f"0.500000 1.00 {12345.0:e} 1e-05"),
        ("%a", (1.0,), (1.0).hex()),
        ("%s and %s, %d", ("one", "fourteen chars", 3), "one and fourteen chars, 3"),
        ("%c%c %p", (104, 105, 0x1234), "hi 0x1234"),
        ("%*d|%.*f", (4, 7, 1, 0.25), "   7|0.2"),
        ("100 %% %d", (), "100 % 0"),  # an argument that is not there
    ],
)
def test_printf(form, arguments, text):
    assert formatted(words(form, *arguments)) == text


class Device:
    """A lane or more of the kernel's half: takes a packet, fills it, rings, and reads what came back."""

    ADDRESS = 0x7000_0000

    def __init__(self, packets=4):
        self.memory = np.zeros(buffer_bytes(packets), np.uint8)
        self.host = HostCalls(self.memory, self.ADDRESS, packets)
        self.headers, self.payloads, self.bell = (self.word(8 * n) - self.ADDRESS for n in range(3))
        self.mask = self.word(40)

    def word(self, at):
        return int(self.memory[at : at + 8].view(np.uint64)[0])

    def put(self, at, *values):
        self.memory[at : at + 8 * len(values)] = np.array(values, np.uint64).view(np.uint8)

    def take(self):
        """The name of a free packet."""
        name = self.word(24)
        self.put(24, self.word(self.headers + (name & self.mask) * 24))
        return name

    def send(self, lanes, service=2):
        """What comes back to each lane, from lane → words."""
        name = self.take()
        number = name & self.mask
        header, payload = self.headers + number * 24, self.payloads + number * 4096
        self.put(header, self.word(32), sum(1 << lane for lane in lanes), service | 1 << 32)
        for lane, given in lanes.items():
            self.put(payload + 64 * lane, *given)
        self.put(32, name)
        self.host.answer()
        assert self.word(header + 16) >> 32 == 0, "the packet is still ready"
        self.put(header, self.word(24))
        self.put(24, name + self.mask + 1)
        return {lane: self.word(payload + 64 * lane) for lane in lanes}


def first(flags, count, message=0):
    return flags | count << 5 | message << 8


def test_packets_are_as_many_as_asked_for_and_nobody_is_none_of_them():
    device = Device(4)
    names = [device.take() for _ in range(4)]
    assert sorted(name & 3 for name in names) == [0, 1, 2, 3]
    assert 0 not in names
    assert device.word(24) == 0
    assert device.word(device.bell + 16) != 0  # somebody wants to be told


@pytest.mark.parametrize(("control", "place"), [(0, "said"), (1, "complaints")])
def test_messages_of_several_lanes_come_in_parts(control, place):
    device = Device()
    begun = device.send({lane: (first(BEGIN, 1), control) for lane in (0, 5, 63)})
    assert len({name >> 8 for name in begun.values()}) == 3
    text = words("lane %d of this wave says no more\n")
    assert len(text) == 5
    for lane, name in begun.items():
        again = device.send({lane: (first(0, 3, name >> 8), *text[:3])})
        assert again[lane] >> 8 == name >> 8
    for _ in range(4):  # packets come round
        device.send({0: (first(0, 0, begun[0] >> 8),)})
    ended = device.send({lane: (first(END, 3, name >> 8), *text[3:], lane) for lane, name in begun.items()})
    assert getattr(device.host, place) == [f"lane {lane} of this wave says no more\n" for lane in (0, 5, 63)]
    assert [ended[lane] for lane in (0, 5, 63)] == [len(line) for line in getattr(device.host, place)]
    assert not device.host.open


def test_a_message_in_one_part_and_too_many_of_them():
    device = Device()
    whole = (first(BEGIN | END, 2), 0, *words("again\n"))
    for _ in range(MOST_MESSAGES // 64 + 2):
        device.send(dict.fromkeys(range(64), whole))
    lines = list(device.host.lines)
    assert lines[:-1] == ["again\n"] * MOST_MESSAGES
    assert lines[-1] == f"… and {64 * (MOST_MESSAGES // 64 + 2) - MOST_MESSAGES} more messages\n"


def test_other_services_are_refused():
    with pytest.raises(Unsupported, match="call 1 of the host; only printf, 2, is modelled"):
        Device().send({0: (0,)}, service=1)


DATA = r"""
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel k
		.amdhsa_next_free_vgpr 8
	.end_amdhsa_kernel
	.text
	.section	.rodata.str,"aMS",@progbits,1
	.type	message,@object
	.p2align	4, 0x0
message:
	.ascii	"a \"b\"; \\ \n\t\101"
	.size	message, 12
	.p2align	3
numbers:
	.byte	1, 0x2
	.short	-1
	.long	7 ; a comment
	.quad	0x100000002
	.zero	3
text:
	.asciz	"z"
table:
	.long	.Lone-.Ltwo
	.section	.debug_str,"MS",@progbits,1
hidden:
	.asciz	"not read"
"""


def test_constants_beside_the_code():
    found = constants_of(DATA)
    raw, at = bytes(found.data), {name: address - ADDRESS for name, address in found.addresses.items()}
    assert at.keys() == {"message", "numbers", "text"}
    assert raw[at["message"] :].startswith(b'a "b"; \\ \n\tA')
    assert at["numbers"] % 8 == 0
    expected = struct.pack("<BBhIQ", 1, 2, -1, 7, 0x1_0000_0002) + bytes(3)
    assert raw[at["numbers"] : at["text"]] == expected
    assert raw[at["text"] :] == b"z\0"


TABLE = """
	.section	.rodata,"a",@progbits
	.p2align	4, 0x0
table:
	.long	5, 6, 7, 8
	.text
"""


def test_a_kernel_reads_its_constants():
    """By an address relative to the code, as LLVM makes it; beyond them lies nothing."""
    body = """s_getpc_b64 s[8:9]
    s_add_u32 s8, s8, {symbol}@rel32@lo+4
    s_addc_u32 s9, s9, {symbol}@rel32@hi+12
    s_load_dwordx2 s[10:11], s[8:9], {offset}
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v10, s10
    v_mov_b32 v11, s11"""

    def launched(symbol, offset):
        text = kernel("gfx942", body.format(symbol=symbol, offset=offset))
        end = text.index("\t.amdgpu_metadata")
        values = [np.zeros(64 * 8, np.uint32), np.zeros((64, 4), np.uint32)]
        return run(text[:end] + TABLE + text[end:], "gfx942", (1,), values).outcome, values[1]

    outcome, results = launched("table", "0x4")
    assert outcome.status == "passed", outcome
    assert results[0, :2].tolist() == [6, 7]
    assert launched("table", "0xc")[0].status == "out_of_bounds"
    assert "symbol other is not in the text" in launched("other", "0x0")[0].message
