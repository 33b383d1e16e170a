"""Kernels that torch.compile generates, taken from a GPU that is there and built for those that are not.

``seen`` is what was launched (no torch) · ``process`` runs a script and takes it (no torch) ·
``child`` is its program, with the hook on Inductor's launches · ``rebuilt`` launches the same
kernels under a target's platform.

Inductor's output is Triton's language, so what it generated for the GPU here is built for any
other. Which configurations of block sizes and warps come into question is asked of Inductor again,
with the properties of the target.
"""
