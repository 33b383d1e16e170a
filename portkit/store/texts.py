"""Texts of a cell's kernels: source, IR and assembly, in one blob of the side folder.

A blob holds the kernels of one cell by the hash of their binary, so cells with the same binaries
share it. It is JSON, compressed with gzip; paths in it were scrubbed before it was written.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from portkit.errors import ReportError
from portkit.model import Record
from portkit.store.journal import read_blob
from portkit.store.schema import clean

BLOB: Final = "texts"
"""Name of the blob in a record."""

STAGES: Final[Mapping[str, str]] = {
    "source": "source of the kernel",
    "ttir": "Triton's IR of the source",
    "ttgir": "Triton's IR with layouts of the target",
    "llir": "optimised LLVM IR",
    "ptx": "NVIDIA's assembly",
    "sass": "NVIDIA's machine code, of a kernel that spills",
    "amdgcn": "AMD's assembly",
}
"""Texts of a kernel in the order in which they come about → what they are."""

NOT_KEPT: Final = "no texts of its kernels were kept: the cell built none, or its run left them out"

_LARGEST: Final = 1 << 28
"""Bytes that a blob may unpack to."""


@dataclass(frozen=True)
class KernelTexts:
    """Texts of one kernel's build."""

    kernel: str
    stages: Mapping[str, str]  # by the names of STAGES
    file: str | None = None  # where its source stands: at most folder and name
    line: int | None = None  # of its first line there
    nulls: Mapping[str, str] = field(default_factory=dict)  # stage → why its text was not kept


def pack(kernels: Mapping[str, KernelTexts]) -> bytes:
    """The blob of kernels by the hash of their binary; the same bytes for the same texts."""
    plain = {name: dataclasses.asdict(texts) for name, texts in kernels.items()}
    return gzip.compress(json.dumps(plain, sort_keys=True).encode(), compresslevel=6, mtime=0)


def unpack(content: bytes, place: str) -> Mapping[str, KernelTexts]:
    """The kernels of a blob.

    Args:
        content: as :func:`pack` gave it.
        place: for errors.

    Raises:
        ReportError: it is damaged, or unpacks to more than any cell has.
    """
    try:
        with gzip.open(io.BytesIO(content)) as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ReportError(f"unpacks to more than {_LARGEST >> 20} MiB, which no cell's texts do", place=place)
        return _cleaned(_KERNELS.validate_json(text))
    except (OSError, EOFError, ValidationError) as error:
        raise ReportError(f"is no blob of texts: {error}".partition("\n")[0], place=place) from error


_KERNELS: Final = TypeAdapter(dict[str, KernelTexts])


def _cleaned(kernels: Mapping[str, KernelTexts]) -> Mapping[str, KernelTexts]:
    """Without what no terminal should get: anyone may have written the report."""
    return {
        name: dataclasses.replace(
            texts,
            kernel=clean(texts.kernel),
            file=clean(texts.file) if texts.file else None,
            stages={stage: clean(texts.stages[stage]) for stage in STAGES if stage in texts.stages},
        )
        for name, texts in kernels.items()
    }


def texts_of(record: Record, paths: Mapping[str, str]) -> Mapping[str, KernelTexts]:
    """Texts of a record's kernels by the hash of their binary.

    Args:
        record: of a merged report.
        paths: run id → report, as a dataset has it.

    Raises:
        ReportError: the record has none, or its side folder lacks them.
    """
    address = record.blobs.get(BLOB)
    if address is None:
        why, label = record.nulls.get(BLOB, NOT_KEPT), record.cell.label(record.evidence)
        raise ReportError(why, place=label, remedy="run `pytest --benchmark -k …` without --portkit-no-texts")
    report = Path(paths[record.run_id])
    return unpack(read_blob(report, address), f"{report}: blob {address[:12]}")
