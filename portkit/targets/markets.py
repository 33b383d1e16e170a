"""Whether an SKU is made for data centres, workstations or consumers, by the brand in its title."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

from portkit.model import Target


class Market(enum.StrEnum):
    """Whom a vendor sells an SKU to."""

    DATA_CENTRE = "data centre"
    WORKSTATION = "workstation"
    CONSUMER = "consumer"


_BRANDS: Final[Mapping[Market, re.Pattern[str]]] = {
    # in this order: a title may have the words of several
    Market.WORKSTATION: re.compile(r"\b(?:Radeon PRO|RTX PRO|Quadro|RTX A\d{4}|RTX \d{4} Ada)\b", re.IGNORECASE),
    Market.CONSUMER: re.compile(r"\b(?:GeForce|Radeon|Ryzen|RX \d{4})\b", re.IGNORECASE),
    Market.DATA_CENTRE: re.compile(
        r"\b(?:Tesla|Instinct|MI\d{3}\w?|[ABHLVTP]\d{1,3}\w?|GH200|GB\d00|DGX)\b", re.IGNORECASE
    ),
}


def market(target: Target) -> Market | None:
    """Market of an SKU; None for a bare architecture, and where its title names no brand that is known."""
    if target.name == target.architecture.name.replace("_", ""):
        return None
    return next((each for each, brand in _BRANDS.items() if brand.search(target.title)), None)
