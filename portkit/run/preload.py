"""Imports PyTorch's compiler once, in the supervisor, for all workers whose baselines compile.

On a GPU host the import took 7 to 10 s, which every worker would spend anew. So a supervisor that
is started for measured cells, before any is known, does it while kernel files are read; another
does it while the kernels of the cells are built on the other cores (:mod:`portkit.run.ahead`). It may ask
CUDA whether there is a GPU, and a process that has asked leaves CUDA useless to its forks;
so NVML is asked instead, and a fork is tried afterwards. An import that hangs ends the
process (:mod:`portkit.run.compiler_hang`); the session starts another, which does without.

Source: ``torch.cuda.is_available``, for the variable that makes it ask NVML.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence

import torch
from platformdirs import user_cache_path
from triton import knobs

from portkit.model import Evidence
from portkit.plan.baselines import WITHOUT_COMPILER
from portkit.run.compiler_hang import NO_COMPILER, ended_after
from portkit.run.jobs import Chain

_MODULES = ("torch._dynamo", "torch._inductor.compile_fx")
_FOR_THE_IMPORT = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "TORCH_WARM_POOL": "0",  # no processes that compile, here
}


def is_wanted(chains: Sequence[Chain]) -> bool:
    """Whether it is needed for more than one cell: for one, the cell's own process imports it as fast."""
    if os.environ.get(NO_COMPILER):
        return False
    measured = [own for chain in chains for job in chain if job.evidence is Evidence.MEASURED for own in job.by_case()]
    compiling = [job for job in measured if set(job.baselines).difference(WITHOUT_COMPILER)]
    return sum(len(job.cells) for job in compiling) > 1


def load_statistics(chains: Sequence[Chain]) -> None:
    """Import SciPy's statistics before workers are forked that measure; no other worker needs them."""
    if any(job.evidence is Evidence.MEASURED for chain in chains for job in chain):
        importlib.import_module("scipy.stats")


def keep_caches() -> None:
    """See that what Inductor makes stays on the disk, in a folder of the user's own that outlives a clean ``/tmp``.

    Before the import, which chooses one under ``/tmp`` otherwise.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(user_cache_path("portkit") / "inductor"))
    # Inductor would put Triton's cache of the whole process into its own.
    os.environ.setdefault("TRITON_CACHE_DIR", knobs.cache.dir)


def load_compiler(most_seconds: float) -> bool:
    """Import it, if it imports at all.

    Args:
        most_seconds: over which this process ends.

    Returns:
        Whether forks of this process can use the device.
    """
    keep_caches()
    with ended_after(most_seconds), _environment(_FOR_THE_IMPORT):
        _import_all()
    return _forks_may_use_the_device()


def _import_all() -> None:
    with contextlib.suppress(Exception):  # a broken one is told by each baseline
        for name in _MODULES:
            importlib.import_module(name)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _forks_may_use_the_device() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: torch and NumPy see to theirs
        pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
