"""Takes reports out of an archive, whoever made it: nothing outside a folder, nothing without bound.

zip, and tar plain or compressed with gzip, bzip2 or xz. Members are reports (``*.jsonl``)
and what lies in their side folders; everything else is passed over. A member whose name
leads out of the folder, that is a link or a device, or that stands twice, is refused by
name. So is an archive that unpacks to more than :data:`MOST_BYTES`, or to more than
:data:`MOST_TIMES` its own size: reports shrink to a twentieth, a bomb to a thousandth. What
is passed over counts too. Sizes are counted as they come out; what a member says of itself
is not believed.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol, Self

from portkit.errors import ReportError

ENDINGS: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
"""How archives are named."""

MOST_BYTES: Final = 16 << 30
MOST_TIMES: Final = 200
MOST_MEMBERS: Final = 1_000_000

_FREE_BYTES = 64 << 20  # that no ratio is asked of
_PIECE = 1 << 20
_XZ_MEMORY = 256 << 20  # what level 9 needs, four times over


def is_archive(path: Path) -> bool:
    """Whether the name is one of an archive."""
    return path.name.lower().endswith(ENDINGS)


def packed_as(path: Path) -> str | None:
    """How a file is packed, by its first bytes, whatever its name; None for one that seems plain."""
    with path.open("rb") as file:
        start = file.read(max(map(len, _PACKED)))
    return next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


_PACKED: Final[Mapping[bytes, str]] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"PK\3\4": "zip",
}


def unpack(archive: Path, folder: Path) -> tuple[str, ...]:
    """Put the reports of an archive and their side folders into an empty folder.

    Returns:
        Names of archives within, which are not opened.

    Raises:
        ReportError: it can't be read, or it is not one to trust; the place names archive and member.
    """
    budget = _Budget(archive, archive.stat().st_size)
    take = _unpack_zip if archive.name.lower().endswith(".zip") else _unpack_tar
    with _named_errors(archive):
        take(archive, folder, budget)
    return tuple(sorted(str(name) for name in budget.names if is_archive(Path(name))))


@dataclass
class _Budget:
    """How much an archive may still unpack to."""

    archive: Path
    size: int
    unpacked: int = 0
    names: set[PurePosixPath] = field(default_factory=set)

    def spend(self, count: int) -> None:
        self.unpacked += count
        most = min(MOST_BYTES, max(_FREE_BYTES, MOST_TIMES * self.size))
        if self.unpacked > most:
            raise ReportError(
                f"unpacks to more than {most} bytes, {MOST_TIMES} times its size or {MOST_BYTES >> 30} GiB",
                place=str(self.archive),
                remedy="unpack it yourself if you trust it, and name the folder",
            )

    def target(self, name: str, folder: Path) -> Path | None:
        """Where a member goes; None for one that is no part of a report."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise self.refused(name, "leads out of the archive")
        if path in self.names:
            raise self.refused(name, "stands twice in the archive")
        self.names.add(path)
        if len(self.names) > MOST_MEMBERS:
            raise self.refused(name, f"is one more than {MOST_MEMBERS} members")
        in_side_folder = any(part.endswith(".blobs") for part in path.parts[:-1])
        return folder / path if path.suffix == ".jsonl" or in_side_folder else None

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Name the member that has no place on this disk: a name too long, or a folder where a file is."""
        try:
            yield
        except OSError as error:
            raise self.refused(name, f"can't be unpacked: {error.strerror or error}") from None

    def refused(self, name: str, why: str) -> ReportError:
        """The error of a member."""
        return ReportError(
            f"member {name[:200]!r} {why}", place=str(self.archive), remedy="pack the folder of reports anew"
        )


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            target = budget.target(member.filename, folder)
            if (member.external_attr >> 16) & 0o170000 == 0o120000:
                raise budget.refused(member.filename, "is a link")
            if target is not None and not member.is_dir():
                with opened.open(member) as content, budget.naming(member.filename):
                    _copy(content, target, budget.spend)


def _unpack_tar(archive: Path, folder: Path, budget: _Budget) -> None:
    with archive.open("rb") as file, _tar(_Unpacked(file, budget.spend)) as opened:
        for member in opened:
            target = budget.target(member.name, folder)
            if member.issparse() or not (member.isfile() or member.isdir()):
                raise budget.refused(member.name, "is a link, a device, a pipe or has holes")
            content = opened.extractfile(member) if target is not None else None
            if content is not None and target is not None:
                with budget.naming(member.name):
                    _copy(content, target, lambda _: None)  # the whole stream is counted


def _tar(stream: _Unpacked) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE, tarinfo=_Member)


class _Member(tarfile.TarInfo):
    """A member whose name and extended header fit in memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """As the base, but refuses a header that goes on for more than a mebibyte."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _EXTENDED and member.size > _PIECE:
            raise ValueError(f"a member's header has {member.size} bytes")
        return member


_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def _copy(content: IO[bytes], target: Path, spend: Callable[[int], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while piece := content.read(_PIECE):
            spend(len(piece))
            file.write(piece)


class _Decompressor(Protocol):
    """What bz2 and lzma share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's decompressor for gzip, with the interface of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))


_MAGIC: Final[tuple[tuple[bytes, Callable[[], _Decompressor]], ...]] = (
    (b"\x1f\x8b", _Gzip),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)),
)


class _Unpacked(io.RawIOBase):
    """What a compressed file holds, a piece at a time; a plain one as it is."""

    def __init__(self, file: IO[bytes], spend: Callable[[int], None]) -> None:
        super().__init__()
        self._pieces = _pieces(file)
        self._spend = spend
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; fewer at the end alone."""
        while len(self._rest) < size and (piece := next(self._pieces, b"")):
            self._spend(len(piece))
            self._rest += piece
        given, self._rest = self._rest[:size], self._rest[size:]
        return given


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    start = file.read(_PIECE)
    make = next((make for magic, make in _MAGIC if start.startswith(magic)), None)
    if make is None:
        yield start
        yield from iter(lambda: file.read(_PIECE), b"")
        return
    unpacking, data = make(), start
    while not unpacking.eof:
        if piece := unpacking.decompress(data, _PIECE):
            yield piece
        data = file.read(_PIECE) if unpacking.needs_input else b""
        if not data and unpacking.needs_input and not unpacking.eof:
            raise EOFError("the compressed stream ends early")


@contextmanager
def _named_errors(archive: Path) -> Iterator[Any]:
    try:
        yield
    except _UNREADABLE as error:
        raise ReportError(
            f"the archive can't be read: {error}", place=str(archive), remedy="pack the folder of reports anew"
        ) from None


_UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,  # encrypted, or a compression that zipfile does not know
    NotImplementedError,
    UnicodeError,
    ValueError,
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
)
