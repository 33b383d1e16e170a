"""Whether the results of a launch depend on the order in which its waves run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import Finding, Kind, outcome_of
from portkit.emulate.core.launch import Descriptor, Emulation, Options, Pointer, Value
from portkit.emulate.core.schedule import Order
from portkit.model import Status

OTHERS = (Order.FORWARD, Order.REVERSE, Order.SEEDED)
"""Orders that a launch is repeated in."""


def in_every_order(
    launch: Callable[[Options], Emulation],
    values: Sequence[Value],
    options: Options | None = None,
    orders: Sequence[Order] = OTHERS,
) -> Emulation:
    """Launch in the order asked for, then in others, and compare the buffers bit by bit.

    Floating-point atomics round by order, so a kernel with them differs here as it does from run to run on a device.

    Args:
        launch: emulates once, on ``values``, in place.
        values: arguments of the launch.
        options: of the first launch.
        orders: of the others, which run without the checker.

    Returns:
        The first launch's emulation, whose results ``values`` are left with; with one more finding for each order
        that gives other bits.
    """
    options = options or Options()
    buffers = [(number, _bytes(value)) for number, value in enumerate(values) if _is_buffer(value)]
    before = [buffer.copy() for _, buffer in buffers]
    first = launch(options)
    if first.outcome.status is not Status.PASSED:
        return first
    after = [buffer.copy() for _, buffer in buffers]
    found = list(first.findings)
    for order in orders:
        _restore(buffers, before)
        repeated = launch(dataclasses.replace(options, order=order, check=False))
        found.extend(_difference(order, repeated, buffers, after))
    _restore(buffers, after)
    return dataclasses.replace(first, outcome=outcome_of(found, None), findings=tuple(found))


def _difference(
    order: Order, repeated: Emulation, buffers: list[tuple[int, Bytes]], after: list[Bytes]
) -> list[Finding]:
    """None, or one finding that names the first byte."""
    if repeated.outcome.status is not Status.PASSED:
        return [Finding(Kind.ORDER_DEPENDENT, f"order {order}: {repeated.outcome.message}")]
    for (number, buffer), expected in zip(buffers, after, strict=True):
        differing = np.flatnonzero(buffer != expected)
        if differing.size:
            offset, name = int(differing[0]), f"argument {number}"
            message = f"{name}[{offset}] has other bits in order {order}; {differing.size} bytes differ"
            return [Finding(Kind.ORDER_DEPENDENT, message, offset=offset, buffer=name)]
    return []


def _restore(buffers: list[tuple[int, Bytes]], contents: list[Bytes]) -> None:
    for (_, buffer), content in zip(buffers, contents, strict=True):
        buffer[:] = content


def _is_buffer(value: Value) -> bool:
    return isinstance(value, np.ndarray | Pointer | Descriptor)


def _bytes(value: Value) -> Bytes:
    pointer = value.pointer if isinstance(value, Descriptor) else value
    array = pointer.buffer if isinstance(pointer, Pointer) else pointer
    assert isinstance(array, np.ndarray)
    return array.reshape(-1).view(np.uint8)
