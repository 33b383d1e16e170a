"""The comparison as one self-contained HTML file: no request leaves it."""

from portkit.render.html.page import page

__all__ = ["page"]
