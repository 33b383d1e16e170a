"""Launches kernels that Inductor generated, under the platform of another target.

The module that Inductor wrote is imported anew in the target's worker, so its decorator says which
configurations Inductor would try for a device with the target's properties. They are then an
autotuner's of Triton, whose launches are captured like any other's.

Inductor's own further steps, which look at registers that a build needed or at times, are not
followed: they change a configuration on the device alone.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

from portkit.run.inductor.seen import Argument, SeenLaunch, TensorForm, read_seen

Grid = tuple[int, int, int]


def launch_all(path: Path) -> None:
    """Launch what was seen; the process must look like a host of the target, for good.

    Args:
        path: file that has it; modules of kernels are written beside it.
    """
    triton_helpers.set_driver_to_gpu = lambda: None  # the driver is the target's, and stays
    for each in read_seen(path).launches:
        _launch(each, path.parent)


def as_it_is(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` that compiles nothing: what it made is launched by :func:`launch_all`."""
    return as_it_is if model is None else model


def _launch(seen: SeenLaunch, folder: Path) -> None:
    tuner = _tuner(seen, folder)
    arguments = {name: _made(value) for name, value in seen.arguments}
    extra = tuner.inductor_meta.get("extra_launcher_args", ())
    given = {name: value for name, value in arguments.items() if name not in extra}
    configs = [_config(each, tuner) for each in tuner.configs]
    constants = {name: value for name, value in tuner.triton_meta["constants"].items() if name in tuner.fn.arg_names}
    tuned = triton.autotune(configs=configs, key=[])(tuner.fn)
    tuned[_grid(tuner, arguments)](**given, **constants)


def _tuner(seen: SeenLaunch, folder: Path) -> Any:
    """Inductor's tuner of the kernel, made for the target."""
    own = hints.DeviceProperties.create(torch.device("cuda", 0))
    kept, hints.DeviceProperties = hints.DeviceProperties, lambda **_: own
    try:
        module = _imported(seen, folder)
    finally:
        hints.DeviceProperties = kept
    return next(each for each in vars(module).values() if isinstance(each, triton_heuristics.CachingAutotuner))


def _imported(seen: SeenLaunch, folder: Path) -> ModuleType:
    path = Path(tempfile.mkdtemp(dir=folder)) / f"{seen.kernel}.py"
    path.write_text(seen.source, encoding="utf-8")  # Triton reads a kernel's source from its file
    spec = importlib.util.spec_from_file_location(f"portkit_inductor_{seen.kernel}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def _made(value: Argument) -> Any:
    if not isinstance(value, TensorForm):
        return value
    return torch.empty_strided(value.shape, value.stride, dtype=getattr(torch, value.dtype), device="cuda")


def _config(config: Any, tuner: Any) -> triton.Config:
    """One of Inductor's configurations as Triton's own; it keeps AMD's options among the constants, as Triton does."""
    known = {name: value for name, value in config.kwargs.items() if name in tuner.fn.arg_names or name in _OPTIONS}
    return triton.Config(known, num_warps=config.num_warps, num_stages=config.num_stages)


_OPTIONS = frozenset({"waves_per_eu", "matrix_instr_nonkdim", "kpack"})
"""Options of AMD's backend."""


def _grid(tuner: Any, arguments: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Grid]:
    """The grid by Inductor's own formula, of a configuration."""

    def grid(meta: Mapping[str, Any]) -> Grid:
        sizes = {name: value for name, value in meta.items() if isinstance(value, int)}
        formula = triton_heuristics.GridExpr.from_meta(tuner.inductor_meta, dict(meta))
        x, y, z = formula.eval_slow({**arguments, **sizes})
        return int(x), int(y), int(z)

    return grid
