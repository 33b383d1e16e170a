"""Where a run keeps emulated launches: in a folder of its own, or in one that is named."""

from pathlib import Path

from portkit.run.jobs import KEPT_LAUNCHES, Limits
from portkit.run.session import Kind, Session, _environment


def test_a_session_has_a_folder_of_its_own_and_removes_it(monkeypatch):
    monkeypatch.delenv(KEPT_LAUNCHES, raising=False)
    session = Session(Limits(workers=1))
    folder = Path(session._launches.name)
    assert folder.is_dir()
    assert _environment(Kind.COMMON, str(folder))[KEPT_LAUNCHES] == str(folder)
    session.close()
    assert not folder.exists()


def test_a_folder_that_is_named_is_taken(monkeypatch):
    monkeypatch.setenv(KEPT_LAUNCHES, "/launches")
    assert _environment(Kind.COMMON, "/own")[KEPT_LAUNCHES] == "/launches"
