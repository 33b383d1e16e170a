"""The child process of ``portkit toggle``: ``python -m portkit.run.toggle.child FOLDER``.

It reads the request on standard input, tells a stage a line on standard output, and leaves its
answer in the folder. What the user's model prints goes to standard error, which the parent keeps.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

from pydantic import TypeAdapter

from portkit.errors import CaseError, HostError, PortkitError
from portkit.plan.cases import Complaint
from portkit.plan.toggle import ToggleRequest
from portkit.run.processes import end_with_parent
from portkit.store.toggled import ANSWER, ToggleAnswer

ANSWER_FILE = "answer.json"

REQUEST = TypeAdapter(ToggleRequest)


def main(folder: Path) -> None:
    """Answer one request."""
    end_with_parent(os.getppid())
    request = REQUEST.validate_json(sys.stdin.buffer.read())
    faulthandler.enable()
    stages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def stage(text: str) -> None:
        print(text, file=stages, flush=True)

    try:
        answer = ToggleAnswer(found=_experiment(request, stage))
    except PortkitError as error:
        answer = ToggleAnswer(complaint=Complaint.of(error))
    (folder / ANSWER_FILE).write_bytes(ANSWER.dump_json(answer))


def _experiment(request: ToggleRequest, stage):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    stage("loading PyTorch")
    try:
        import torch  # noqa: PLC0415 - its absence has an answer of its own
    except ImportError as error:
        raise HostError(f"PyTorch does not import: {error}", remedy="install torch beside portkit") from None
    from portkit.run.toggle import inductor  # noqa: PLC0415
    from portkit.run.toggle.ways import Experiment  # noqa: PLC0415

    inductor.prepare()
    try:
        with torch.no_grad():
            return Experiment(request, stage).run()
    except SystemExit as error:
        raise CaseError(f"the model ended the process: exit {error.code}", place=request.model.text) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the user's threads and exit handlers have no part in it
