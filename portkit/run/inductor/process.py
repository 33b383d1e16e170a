"""Has a script run on the GPU of this host, for the kernels that Inductor generates in it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from portkit.errors import CaseError, HostError
from portkit.run.inductor.child import NO_HOOK
from portkit.run.inductor.seen import Seen, read_seen
from portkit.run.processes import describe_exit
from portkit.run.scrub import tail

STILL_SECONDS: Final = 5.0
"""Between two words on how long it runs by now."""

_ALONE = (
    "run it by itself first: python SCRIPT; or hide the GPU by CUDA_VISIBLE_DEVICES= to leave its compiled part out"
)


def seen_in_script(script: Sequence[str], answer: Path, still: Callable[[float], None]) -> Seen:
    """Run a script here and return what Inductor launched in it.

    Args:
        script: its path and its own arguments.
        answer: file to leave it in.
        still: hears every few seconds for how many it has run.

    Raises:
        CaseError: the script does not run here.
        HostError: this PyTorch launches generated kernels in a way that is not known.
    """
    command = [sys.executable, "-m", "portkit.run.inductor.child", str(answer), *script]
    done = _run(command, still)
    if done.returncode == NO_HOOK and not answer.exists():
        raise HostError(
            "this PyTorch launches the kernels of torch.compile in a way that portkit does not know",
            remedy="install PyTorch 2.7 to 2.13",
        )
    if done.returncode != 0 or not answer.exists():
        said = tail(done.stderr.decode(errors="replace"))
        raise CaseError(
            f"the script does not run on this GPU: {describe_exit(done.returncode)}; its last output:\n{said}",
            place=script[0],
            remedy=_ALONE,
        )
    return read_seen(answer)


def _run(command: Sequence[str], still: Callable[[float], None]) -> subprocess.CompletedProcess[bytes]:
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=STILL_SECONDS)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                except subprocess.TimeoutExpired:
                    still(time.monotonic() - began)
        except BaseException:
            process.kill()
            raise
