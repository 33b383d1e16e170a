"""Fixtures of tests that run on a CUDA or ROCm device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="measuring needs torch")
pytest.importorskip("triton", reason="measuring needs Triton")


def pytest_collection_modifyitems(items):
    missing = pytest.mark.skip(reason="torch sees no CUDA or ROCm device")
    for item in items:
        if "/tests/gpu/" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(missing)


@pytest.fixture
def target(module_target):
    """The catalogue's target of the device here, or its bare architecture."""
    return module_target


@pytest.fixture(scope="module")
def module_target():
    """The same, for fixtures of a module."""
    from portkit.targets.catalog import load_catalog

    major, minor = torch.cuda.get_device_capability()
    properties = torch.cuda.get_device_properties(0)
    name = getattr(properties, "gcnArchName", "").split(":")[0] if torch.version.hip else f"sm_{major}{minor}"
    return load_catalog().get(name)
