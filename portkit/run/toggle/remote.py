"""The experiment's side of a variant: starts its process, asks it, and ends it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import torch

from portkit.run.processes import describe_exit
from portkit.run.toggle.variant import BUILT, REQUEST, SAMPLE, TRACE, TRACED, Traced, VariantRequest
from portkit.store.toggled import Way


class VariantLostError(RuntimeError):
    """The process of a variant ended before it was told to."""


class Remote:
    """A variant in a process of its own, which loads PyTorch at once and then waits for its request."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "portkit.run.toggle.variant"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def build(self, request: VariantRequest) -> Way:
        """Build the variant and call it once; a way with ``failed`` where it can't be."""
        try:
            return BUILT.validate_json(self._asked(REQUEST.dump_json(request).decode()))
        except VariantLostError as error:
            return Way(request.subject.name, failed=str(error))

    @staticmethod
    def result(request: VariantRequest) -> tuple[torch.Tensor, ...]:
        """Tensors of the variant's first call."""
        found = torch.load(Path(request.result), weights_only=True, map_location=request.device)
        return tuple(found)

    def sample(self) -> float:
        """Milliseconds of one call.

        Raises:
            VariantLostError: its process has ended.
        """
        return float(self._asked(SAMPLE))

    def trace(self) -> Traced:
        """Its kernels on the device trace."""
        return TRACED.validate_json(self._asked(TRACE))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _asked(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise VariantLostError(f"its process ended with {describe_exit(self._process.wait())}")
        return answer
