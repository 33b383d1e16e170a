"""Executes GPU machine code on a CPU and judges what it does: correctness, never time."""

from __future__ import annotations

from portkit.emulate.core.findings import Finding, Kind, Place, Site
from portkit.emulate.core.launch import Counts, Descriptor, Emulation, Options, Pointer, Value
from portkit.emulate.core.orders import in_every_order
from portkit.emulate.core.running import SHARED_BYTES
from portkit.emulate.core.schedule import Order
from portkit.emulate.kept import KeptLaunches
from portkit.emulate.vendors import ARCHITECTURES, run

__all__ = [
    "ARCHITECTURES",
    "SHARED_BYTES",
    "Counts",
    "Descriptor",
    "Emulation",
    "Finding",
    "KeptLaunches",
    "Kind",
    "Options",
    "Order",
    "Place",
    "Pointer",
    "Site",
    "Value",
    "in_every_order",
    "run",
]
