"""Calls that a kernel makes to its host: ``printf``, which assertions and prints of Triton end in.

A wave takes a packet from a stack of free ones, fills it, puts it on a stack of ready ones, rings a bell
(``s_sendmsg``) and waits until the host has cleared the packet's flag. The device's half of that is code in the
text, of ROCm's device libraries, and runs as any other; this is the host's half.

Sources of the layouts: ROCm device libraries, ``ockl/src/hostcall_impl.cl`` and ``services.cl`` (packets, messages of
``printf``), ROCclr, ``device/devhostcall.cpp`` and ``devhcmessages.cpp`` (the host's side), and HSA's
``amd_hsa_signal.h`` (the bell).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from portkit.emulate.amdgcn.printf import formatted
from portkit.emulate.amdgcn.program import Program
from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import Unsupported

ARGUMENT = "hidden_hostcall_buffer"
"""Kind of the kernel argument that holds the buffer's address."""

MOST_MESSAGES = 1000
"""Of a launch; later ones are counted, not kept."""

_BELL = 64  # offset of the bell, behind the buffer's own fields
_HEADERS = 192  # offset of the packets' headers
_HEADER, _PAYLOAD, _SLOT = 24, 4096, 64  # bytes of a packet's header and payload, and of a lane's part of that
_FREE, _READY_STACK = 24, 32  # offsets of both stacks
_READY = 1  # of a packet's control word
_PRINTF = 2  # service
_BEGIN, _END, _LENGTH_AT, _IDENTITY_AT = 1, 2, 5, 8  # of a message's first word
_TO_STDERR = 1  # of the word that a message of printf begins with


def calls_host(program: Program) -> bool:
    """Whether the code rings the bell; compilers list the argument where they can't rule that out."""
    listed = any(item.kind == ARGUMENT for item in program.arguments)
    return listed and any(item.operands == ("sendmsg(MSG_INTERRUPT)",) for item in program.instructions)


def buffer_bytes(packets: int) -> int:
    """Bytes of a buffer of so many packets, which must be a power of two."""
    return _payloads_at(packets) + packets * _PAYLOAD


def _payloads_at(packets: int) -> int:
    return -(-(_HEADERS + packets * _HEADER) // 64) * 64


@dataclass
class HostCalls:
    """The buffer that a kernel and its host share, and what was said through it.

    Args:
        memory: bytes of the buffer, which the kernel changes; filled in here.
        address: where the kernel sees it.
        packets: how many there are, a power of two.
    """

    memory: Bytes
    address: int
    packets: int
    said: list[str] = field(default_factory=list)  # to stdout, message by message
    complaints: list[str] = field(default_factory=list)  # to stderr
    lost: int = 0  # messages beyond the most that are kept
    open: dict[int, list[int]] = field(default_factory=dict)  # words of messages that go on, by their number
    begun: int = 0

    def __post_init__(self) -> None:
        places = (_HEADERS, _payloads_at(self.packets), _BELL)
        top = self._chain_packets()
        self._write(0, "QQQQQQ", *(self.address + place for place in places), top, 0, self.packets - 1)
        # A bell of which somebody is told: mailbox and number of the event are not 0.
        self._write(_BELL, "qqQII", 1, 0, self.address + _BELL + 56, 1, 0)

    def _chain_packets(self) -> int:
        """Put all packets on the stack of free ones. A packet's name is its number, and a count above that."""
        below = self.packets  # the first one's name: 0 is nobody's
        for number in range(1, self.packets):
            self._write(_HEADERS + number * _HEADER, "Q", below)
            below = number
        return below

    def answer(self) -> None:
        """Serve every packet that is ready."""
        name = self._read(_READY_STACK)
        self._write(_READY_STACK, "Q", 0)
        while name:
            number = name & (self.packets - 1)
            header = _HEADERS + number * _HEADER
            name = self._read(header)
            self._serve(number, header)

    def _serve(self, number: int, header: int) -> None:
        lanes, words = self._read(header + 8), self._read(header + 16)
        service, control = words & 0xFFFF_FFFF, words >> 32
        if service != _PRINTF:
            raise Unsupported(f"call {service} of the host; only printf, {_PRINTF}, is modelled")
        for lane in range(64):
            if lanes >> lane & 1:
                self._message(_payloads_at(self.packets) + number * _PAYLOAD + lane * _SLOT)
        self._write(header + 20, "I", control & ~_READY)

    def _message(self, slot: int) -> None:
        """Take in a part of a lane's message. Its first word comes back with a number, or is printf's result."""
        first, *words = (self._read(slot + 8 * number) for number in range(8))
        if first & _BEGIN:
            self.begun += 1
            first = (first & 0xFF & ~_BEGIN) | self.begun << _IDENTITY_AT
        message = self.open.setdefault(first >> _IDENTITY_AT, [])
        message.extend(words[: first >> _LENGTH_AT & 7])
        if first & _END:
            del self.open[first >> _IDENTITY_AT]
            first = self._print(message)
        self._write(slot, "Q", first)

    def _print(self, words: list[int]) -> int:
        """Keep a whole message; printf's result."""
        control, *rest = words
        text = formatted(rest)
        kept = self.complaints if control & _TO_STDERR else self.said
        if len(kept) < MOST_MESSAGES:
            kept.append(text)
        else:
            self.lost += 1
        return len(text)

    def _read(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 8].tobytes(), "little")

    def _write(self, at: int, form: str, *values: int) -> None:
        raw = struct.pack(f"<{form}", *values)
        self.memory[at : at + len(raw)] = np.frombuffer(raw, np.uint8)

    @property
    def lines(self) -> Iterator[str]:
        """What was said to stdout."""
        yield from self.said
        if self.lost:
            yield f"… and {self.lost} more messages\n"
