"""Bounds of what a text declares: what no device has is refused before memory is set aside for it."""

from __future__ import annotations

from dataclasses import dataclass

from portkit.emulate.core.findings import Site, Unloadable


@dataclass(frozen=True)
class Bounds:
    """Least and most that a device has of something."""

    least: int
    most: int

    def check(self, what: str, value: int, site: Site | None = None) -> int:
        """The value.

        Args:
            what: its name, as the text or the document has it.
            value: as declared.
            site: line that declares it.

        Raises:
            Unloadable: it is out of bounds.
        """
        if not self.least <= value <= self.most:
            at = f"line {site.line} `{site.text}`: " if site else ""
            raise Unloadable(f"{at}{what}: {value}, where {self.least} to {self.most} are possible")
        return value
