"""What an hour of a GPU costs: a YAML file of prices by SKU, each with its source, its date and how it is billed.

prices:
  h100:
    usd_per_hour: 2.65
    granularity_seconds: 60        # time is billed in whole steps of this; left out where not known
    minimum_seconds: 1200          # and never less than this; likewise
    date: 2026-09-24
    source: one provider's on-demand rate
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from portkit.document import Document, Kind
from portkit.errors import PricesError
from portkit.plan.validated import merged, read_validated

BUILT_IN: Final = Path(__file__).parent / "data" / "prices.yaml"

_FILE: Final = Kind("prices file", PricesError, "`prices:`")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one SKU."""

    target: str
    usd_per_hour: float  # of one GPU
    granularity_seconds: int | None  # step that time is billed in; None where the source does not say
    minimum_seconds: int | None  # least that is billed; None likewise
    date: datetime.date
    source: str
    place: str  # where it stands: file, line and key

    def billed_hours(self, hours: float) -> float:
        """Hours on the bill of a job: rounded up to whole steps, and the minimum at least, as far as they are known.

        >>> price = Price("h100", 2.65, 60, 1200, datetime.date(2026, 9, 24), "", "")
        >>> price.billed_hours(0.1), price.billed_hours(0.501)
        (0.3333333333333333, 0.5166666666666667)
        """
        seconds = hours * 3600
        if step := self.granularity_seconds:
            seconds = math.ceil(round(seconds / step, 9)) * step
        return max(seconds, self.minimum_seconds or 0) / 3600

    def bill(self, hours: float) -> float:
        """US dollars of a job of that many GPU-hours on one GPU."""
        return self.usd_per_hour * self.billed_hours(hours)


class Entry(BaseModel):
    """One SKU as the file has it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    usd_per_hour: Annotated[float, Field(gt=0, le=10_000)]
    granularity_seconds: Annotated[int, Field(gt=0, le=86_400)] | None = None
    minimum_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    date: datetime.date
    source: Annotated[str, Field(min_length=1)]


class File(BaseModel):
    """A whole prices file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prices: dict[str, Entry] = Field(min_length=1)


def load_prices(files: Sequence[Path] = ()) -> Mapping[str, Price]:
    """Target → its price: those of the package, and before them those of the user's files, the last first.

    Raises:
        PricesError: a file is wrong; the message has file, line, key and remedy.
    """
    return merged(read_prices, BUILT_IN, files)


def read_prices(path: Path) -> Mapping[str, Price]:
    """Target → its price, of one file.

    Raises:
        PricesError: the file is wrong; the message has file, line, key and remedy.
    """
    document, file = read_validated(path, _FILE, File, (Entry,))
    return {name: _price(document, name, entry) for name, entry in file.prices.items()}


def _price(document: Document, name: str, entry: Entry) -> Price:
    return Price(target=name, place=document.place(("prices", name)), **dict(entry))
