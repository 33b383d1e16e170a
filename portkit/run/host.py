"""What this host is: devices, driver, toolkit, torch, Triton and settings.

Runs in a child process, ``python -m portkit.run.host``, since it imports torch.
Names and serial numbers are hashed with a salt and never leave this module.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib
import json
import os
import platform
import re
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from platformdirs import user_data_path

from portkit.model import Device, Host
from portkit.run import rocm_host
from portkit.run.scrub import scrub
from portkit.store.merge import STAND_IN
from portkit.targets.catalog import Catalog, load_catalog

SALT_VARIABLE = "PORTKIT_SALT"
"""Environment variable with the salt of a fleet; without it each user has their own."""

_SETTINGS = (
    "TRITON_*",
    "AMDGCN_*",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_*",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "AMD_SERIALIZE_KERNEL",
    "HIP_LAUNCH_BLOCKING",
    "HIP_FORCE_DEV_KERNARG",
    "GPU_MAX_HW_QUEUES",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK",
    "HIPBLASLT_*",
    "ROCBLAS_*",
    "TORCH_ROCM_*",
    "PYTORCH_TUNABLEOP_*",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "DISABLE_LLVM_OPT",
    "LLVM_*",
    "MLIR_*",
    STAND_IN,
)
"""Variables that change code, numerics or the choice of devices; wildcards as in a shell."""

_PLACES = ("TRITON_*_DIR", "TRITON_HOME", "TRITON_PRINT_*", "LLVM_SYSPATH", "LLVM_BUILD_DIR")
"""Variables that match above but only say where files lie or what is printed."""


def probe_host(target_files: Sequence[str] = ()) -> Host:
    """Look at this host; imports torch and Triton where they are.

    Args:
        target_files: the user's own catalogue files, for the names of devices.

    Returns:
        The host. What is not there is None; without torch no device is known.

    Raises:
        CatalogError: a target file is wrong.
    """
    catalog = load_catalog([Path(each) for each in target_files])
    salt = _salt()
    torch, triton = _module("torch"), _module("triton")
    return Host(
        host_id=_hashed(salt, machine()),
        system=_system(),
        python=platform.python_version(),
        torch=_version(torch),
        triton=_version(triton),
        backends=_backends() if triton else (),
        driver=_driver(),
        toolkit=_toolkit(torch) if torch else None,
        devices=_devices(torch, catalog, salt) if torch else (),
        settings=relevant_settings(os.environ),
    )


def relevant_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change code, numerics or the choice of devices, paths shortened."""
    return {
        name: scrub(value)
        for name, value in sorted(environment.items())
        if _matches(name, _SETTINGS) and not _matches(name, _PLACES)
    }


def device_id_of(serial: str) -> str:
    """The salted hash of what tells a device from others, as :attr:`portkit.model.Device.device_id` has it."""
    return _hashed(_salt(), serial)


def import_problems() -> dict[str, str]:
    """Why torch or Triton cannot be imported, by name; empty when both can."""
    problems = {}
    for name in ("torch", "triton"):
        try:
            importlib.import_module(name)
        except Exception as error:  # a broken installation raises what it likes
            problems[name] = scrub(f"{type(error).__name__}: {error}")
    return problems


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # import_problems says why
        return None


def _version(module: ModuleType | None) -> str | None:
    return str(module.__version__) if module else None


def _backends() -> tuple[str, ...]:
    """Names of the backends that this Triton has; none where it cannot say."""
    module = _module("triton.backends")
    return tuple(sorted(module.backends)) if module else ()


def _toolkit(torch: Any) -> str | None:
    if torch.version.hip:
        return rocm_host.toolkit(torch.version)
    return f"CUDA {torch.version.cuda}" if torch.version.cuda else None


def _driver() -> str | None:
    """Version of the kernel driver; None where it does not say one."""
    nvidia = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", _read("/proc/driver/nvidia/version"))
    return nvidia[0] if nvidia else rocm_host.driver()


def _devices(torch: Any, catalog: Catalog, salt: bytes) -> tuple[Device, ...]:
    if not torch.cuda.is_available():
        return ()
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    found = [_device(i, each, catalog, salt) for i, each in enumerate(properties)]
    return rocm_host.of_rocm(found, properties) if torch.version.hip else tuple(found)


def _device(index: int, properties: Any, catalog: Catalog, salt: bytes) -> Device:
    rocm = rocm_host.is_amd(properties)
    arch = rocm_host.architecture(properties) if rocm else f"sm_{properties.major}{properties.minor}"
    units, memory = properties.multi_processor_count, properties.total_memory
    return Device(
        index=index,
        name=properties.name,
        target=_target(catalog, properties.name, arch, units, memory),
        architecture=arch,
        memory_bytes=memory,
        units=units,
        device_id=_hashed(salt, rocm_host.serial_of(properties, machine()) if rocm else _serial(properties, index)),
    )


def _serial(properties: Any, index: int) -> str:
    return str(getattr(properties, "uuid", None) or f"{machine()} {getattr(properties, 'pci_bus_id', index)}")


def _target(catalog: Catalog, name: str, arch: str, units: int, memory: int) -> str:
    return catalog.match_device(name=name, architecture=arch, units=units, memory_bytes=memory).name


def _system() -> str:
    release = ".".join(platform.release().split(".")[:2])
    return f"{platform.system()} {release} {platform.machine()}"


def machine() -> str:
    """What tells this host from others; to be hashed, never to be written."""
    return _read("/etc/machine-id") or platform.node()


def _hashed(salt: bytes, text: str) -> str:
    return hashlib.blake2b(text.encode(), key=salt, digest_size=8).hexdigest()


def _salt() -> bytes:
    """The fleet's salt, or the user's own, or a passing one where nothing can be kept."""
    if given := os.environ.get(SALT_VARIABLE):
        return hashlib.sha256(given.encode()).digest()
    try:
        return _kept_salt(user_data_path("portkit") / "salt")
    except OSError:
        return secrets.token_bytes(32)


def _kept_salt(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_whole(path, secrets.token_hex(32))
    return hashlib.sha256(path.read_bytes()).digest()


def _create_whole(path: Path, text: str) -> None:
    """Create a file that nobody sees half written; of two creators the first wins."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as scratch:
        scratch.write(text)
        scratch.flush()
        try:
            os.link(scratch.name, path)
        except FileExistsError:
            return


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, each) for each in patterns)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def main(target_files: Sequence[str]) -> None:
    """Print the host and what could not be imported, as one JSON object."""
    host = probe_host(target_files)
    print(json.dumps({"host": asdict(host), "problems": import_problems()}))


if __name__ == "__main__":
    main(sys.argv[1:])
