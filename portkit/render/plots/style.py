"""How plots look: calm lines, system fonts, colours that colour-blind readers tell apart.

Colours are those of M. Okabe and K. Ito, "Color Universal Design" (2008), for light and dark ground.
"""

from __future__ import annotations

from typing import Any, Final

FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"


def _style(ink: str, muted: str, line: str, colours: list[str]) -> dict[str, Any]:
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500}
    return {
        "background": "white",
        "font": FONT,
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 14,
            "fontWeight": 600,
            "anchor": "start",
            "offset": 12,
        },
        "view": {"stroke": None},
        "axis": {**words, "gridColor": line, "domainColor": muted, "tickColor": muted},
        "legend": {
            **words,
            "symbolLimit": 100,
            "symbolBaseFillColor": ink,
            "symbolBaseStrokeColor": ink,
            "layout": {"top": {"direction": "vertical", "anchor": "start"}},
        },
        "header": {"labelColor": ink, "titleColor": ink, "labelFontSize": 12},
        "rule": {"color": ink},
        "text": {"color": ink, "fontSize": 12},
        "range": {"category": colours},
    }


LIGHT: Final = _style(
    "#1f2328", "#8b949e", "#e6e8eb", ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#4b9cd3", "#5a5a5a"]
)
DARK: Final = _style(
    "#e6edf3", "#7d8590", "#2b3138", ["#56b4e9", "#e69f00", "#33c79a", "#e09cc4", "#f0e442", "#9ecae1", "#b0b0b0"]
)
