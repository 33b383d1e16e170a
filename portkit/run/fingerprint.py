"""What an output leaves for other hosts to compare with: hash, norms and sampled elements.

One JSON text a cell, kept in the side folder as the blob ``fingerprint``.
:mod:`portkit.analysis.distance` reads it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import torch

from portkit.model import SAMPLES, sampled_positions
from portkit.run.calls import as_real
from portkit.run.inputs import hash_tensors

_CHUNK = 1 << 22  # elements at once; 32 MiB in float64


def fingerprint(outputs: Sequence[tuple[str, torch.Tensor]], input_hash: str) -> bytes:
    """The fingerprint of a cell's outputs.

    Args:
        outputs: names and tensors.
        input_hash: of the cell's inputs; only fingerprints with equal ones are comparable.
    """
    content = {
        "input_hash": input_hash,
        "samples": SAMPLES,
        "outputs": [_fingerprint(name, as_real(tensor.detach())) for name, tensor in outputs],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _fingerprint(name: str, tensor: torch.Tensor) -> dict[str, object]:
    positions = torch.tensor(sampled_positions(tensor.numel()), dtype=torch.int64, device=tensor.device)
    flat = tensor.contiguous().view(-1)
    sampled = flat.view(torch.uint8).view(-1, tensor.element_size())[positions]
    return {
        "name": name,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "hash": hash_tensors({name: tensor}),
        **_norms(flat),
        "bits": base64.b64encode(bytes(sampled.flatten().tolist())).decode(),  # little-endian elements
    }


def _norms(flat: torch.Tensor) -> dict[str, object]:
    """Sum of magnitudes, root of the sum of squares and largest magnitude of the finite elements."""
    total, squares, largest, finite_count = 0.0, 0.0, 0.0, 0
    for first in range(0, flat.numel(), _CHUNK):
        part = flat[first : first + _CHUNK].to(torch.float64)
        part = part[part.isfinite()].abs()
        finite_count += part.numel()
        if part.numel():
            total, squares = (total + float(part.sum()), squares + float(part.square().sum()))
            largest = max(largest, float(part.max()))
    return {"sum_abs": total, "norm": squares**0.5, "max_abs": largest, "nonfinite": flat.numel() - finite_count}
