"""Fixtures of tests that build: they need torch and Triton, but no GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="builds need torch")
pytest.importorskip("triton", reason="builds need Triton")

from workshop import Workshop

from portkit.run.jobs import Limits
from portkit.run.session import Session


@pytest.fixture(scope="session")
def workshop():
    session = Session(Limits(workers=2, cell_seconds=90))
    yield Workshop(session)
    session.close()


@pytest.fixture
def hasty_workshop():
    session = Session(Limits(workers=2, cell_seconds=4))
    yield Workshop(session)
    session.close()
