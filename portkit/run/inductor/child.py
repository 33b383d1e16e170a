"""Runs a script on the GPU of this host and takes what Inductor launches: ``python -m portkit.run.inductor.child``.

Its arguments are the file for the answer, the script, and the script's own. The hook is
``CachingAutotuner.run``, through which Inductor's code launches each kernel that it generated, in
PyTorch 2.7 to 2.13. It is no stable interface: where it is not there, that is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from portkit.run.inductor.seen import Argument, Seen, SeenLaunch, TensorForm, write_seen
from portkit.run.scripts import run_script

NO_HOOK: Final = 3
"""Exit code where this PyTorch launches its kernels by other ways."""

_OWN_KERNELS: Final = "USER_AUTOTUNE"
"""Inductor's mark of a kernel that the user wrote: the script launches it by itself when it runs uncompiled."""


def watch(taken: dict[SeenLaunch, None]) -> None:
    """From here on, note every launch of a generated kernel."""
    import torch._inductor.runtime.triton_heuristics as heuristics  # noqa: PLC0415 - after the environment is set

    run = heuristics.CachingAutotuner.run

    def watched(tuner: Any, *arguments: Any, **options: Any) -> Any:
        if not options.get("benchmark_run") and getattr(tuner.heuristic_type, "name", "") != _OWN_KERNELS:
            taken[_launch(tuner, arguments)] = None
        return run(tuner, *arguments, **options)

    heuristics.CachingAutotuner.run = watched


def _launch(tuner: Any, arguments: Sequence[Any]) -> SeenLaunch:
    kernel = tuner.fn
    source = Path(kernel.fn.__code__.co_filename).read_text(encoding="utf-8")
    named = zip(_names(tuner), arguments, strict=False)
    return SeenLaunch(kernel.__name__, source, tuple((name, _form(value)) for name, value in named))


def _names(tuner: Any) -> Iterator[str]:
    """Names of what it is launched with: all of its signature but constants of the build."""
    signature: Mapping[str, str] = tuner.triton_meta["signature"]
    yield from (name for name, kind in signature.items() if kind != "constexpr")
    yield from tuner.inductor_meta.get("extra_launcher_args", ())


def _form(value: Any) -> Argument:
    import torch  # noqa: PLC0415 - as above

    if isinstance(value, torch.Tensor):
        return TensorForm(str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(value.stride()))
    return value if isinstance(value, int | float | None) else int(value)


def main(answer: Path, script: Sequence[str]) -> int:
    """Run the script as ``python script.py …`` would."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # kernels of other processes come without their source
    import torch  # noqa: PLC0415

    taken: dict[SeenLaunch, None] = {}
    try:
        watch(taken)
    except (ImportError, AttributeError):
        return NO_HOOK
    run_script(script)
    torch.cuda.synchronize()
    write_seen(answer, Seen(tuple(taken), torch.cuda.get_device_name()))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
