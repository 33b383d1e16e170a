"""Records instruction results as on a host with the GPU ``sys.argv[1]``: its launches go to the emulator.

What runs is the code for hardware: tensors, specialisation, compilation, launch, and the way back of the results.
"""

import sys

import numpy as np

from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.probes import probes_of
from portkit.emulate.core.operands import operands_for
from portkit.model import Device, Host
from portkit.run import instruction_vectors as vectors
from portkit.run.capture import Recorder
from portkit.run.emulated import emulate_from_here
from portkit.run.shim import install
from portkit.targets.catalog import load_catalog

target = load_catalog(()).get(sys.argv[1])
name = target.architecture.name
here = Device(0, "an AMD GPU", target.name, name, 1 << 36, 100, "0")
vectors.probe_host = lambda: Host("0", "Linux", "3", "2", "3", (), None, "HIP 6", (here,), {})
answers, mode = install(target, backing="cpu")
emulator = emulate_from_here(Recorder(target), answers, mode)
emulator.begin()
probes = [probe for probe in probes_of(ARCHITECTURES[name]) if probe.name in sys.argv[2:]]
with mode:
    made = vectors.record(vectors.Hardware(), probes)
assert not made.refused, made.refused
assert not emulator.found, emulator.found
assert emulator.launches == len(probes) > 0
for probe in probes:
    wanted = vectors.Emulated(name).results(probe, operands_for(probe.sources))
    assert np.array_equal(made.results[probe.name], wanted), probe.name
print("launched", emulator.launches)
