"""Mappings that records of a report have alike are one; records stay what they were."""

from factories import header, launch, record, verdict

from portkit.model import Build
from portkit.store.journal import Journal, read_report
from portkit.store.sharing import Sharing


def test_equal_mappings_are_one_and_records_stay_equal(tmp_path):
    run = header(cells=2)
    written = [record(run=run, shape=(size, 8), nulls={"timing": "never run"}) for size in (1, 2)]
    journal = Journal.create(tmp_path, run)
    for each in written:
        journal.append(each)
    journal.finish()
    one, other = read_report(journal.path).records
    assert [one, other] == written
    assert one.nulls is other.nulls
    assert one.build.launches[0].constants is other.build.launches[0].constants
    assert one.build.launches[0].resources is other.build.launches[0].resources
    assert one.build.launches[0].occupancy is other.build.launches[0].occupancy
    assert one.blobs == {}


def test_numbers_keep_their_kind():
    builds = [Build((launch(options={"fast": value}),), "b" * 16) for value in (1, True, 1.0)]
    records = [record(build=each, verdict=verdict()) for each in builds]
    sharing = Sharing()
    for each in records:
        sharing.record(each)
    assert [type(each.build.launches[0].options["fast"]) for each in records] == [int, bool, float]


def test_mapping_that_holds_a_list_is_left_alone():
    options = {"dims": [1, 2]}
    made = record(build=Build((launch(options=options),), "b" * 16))
    before = made.build.launches[0].options
    Sharing().record(made)
    assert made.build.launches[0].options is before
