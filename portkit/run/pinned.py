"""The one device of this process: which it is, and whether it works."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from portkit.run.classify import describe


def only_device(index: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that leave one device visible, counted among those that are visible now.

    HIP heeds CUDA's variable only where its own is not set. Indices count what
    ``ROCR_VISIBLE_DEVICES`` leaves, which stays as it is.
    """
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    names = names[::-1] if torch.version.hip else names
    visible = next((environment[name] for name in names if environment.get(name)), None)
    return dict.fromkeys(names, visible.split(",")[index].strip() if visible else str(index))


def device_answers() -> bool:
    """Whether the device still works for this process; a fault ruins its context for good."""
    return device_refusal() is None


def device_refusal() -> str | None:
    """What the device says instead of adding two numbers; None where it adds them."""
    try:
        torch.cuda.synchronize()
        found = torch.ones(1, device="cuda").add(1).item()
    except Exception as error:
        return describe(error)
    return None if found == 2 else f"it makes {found:g} of 1 + 1"
