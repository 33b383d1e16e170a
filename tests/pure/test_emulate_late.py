"""Accesses that are judged later give what those give that are judged one by one."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np

from portkit.emulate.core.checker import Conflict, Use, Values, global_tags, lane_tags
from portkit.emulate.core.late import Kept
from portkit.emulate.core.memory import Allocation
from portkit.emulate.core.races import GlobalRaces, LaneLedger, SharedLedger

GROUPS, STRIDE, WAVES = 2, 96, 3
SIZE = GROUPS * STRIDE


class Random:
    """Accesses at random: mostly each agent's own bytes, at times those of another."""

    def __init__(self, seed: int) -> None:
        self.choice = np.random.default_rng(seed)
        self.memory = np.zeros(SIZE, np.uint8)
        self.stray = self.choice.choice([0.0, 0.02, 0.3])  # of the accesses

    def use(self) -> Use:
        return self.choice.choice([Use.READ, Use.WRITE, Use.WRITE, Use.ATOMIC], p=[0.45, 0.25, 0.25, 0.05])

    def access(self, groups: list[int]) -> tuple[Use, np.ndarray, int, np.ndarray, np.ndarray]:
        """Use, offsets, size, groups and waves of one instruction."""
        size, count = int(self.choice.choice([4, 8, 16])), int(self.choice.integers(1, 5))
        group, wave = self.choice.choice(groups, count), self.choice.integers(0, WAVES, count)
        owner = np.where(self.choice.random(count) < self.stray, self.choice.integers(0, WAVES, count), wave)
        at = group * STRIDE + owner * (STRIDE // WAVES) + self.choice.integers(0, STRIDE // WAVES // size, count) * size
        return self.use(), at, size, group, wave

    def words(self, at: np.ndarray, size: int) -> np.ndarray:
        """Few values, so that some write what is there already."""
        return np.repeat(self.choice.integers(0, 2, at.size).astype(np.uint32)[:, None], size // 4, axis=1)

    def values(self, at: np.ndarray, size: int, words: np.ndarray) -> Values:
        place, after = at[:, None] + np.arange(size), words.view(np.uint8)
        before = self.memory[place]
        self.memory[place] = after
        return Values(lambda: before, lambda: after)

    def item(self, use: Use, at: np.ndarray, size: int, tags: np.ndarray, number: int) -> tuple[Kept, Values | None]:
        """An access as it is kept, and what it needs to be judged at once."""
        words = self.words(at, size) if use is Use.WRITE else None
        values = None if words is None else self.values(at, size, words)
        return Kept(use, at, size, lambda: tags, words, number), values


def note(found: list, number: int, conflict: Conflict | None) -> None:
    if conflict:
        found.append((number, conflict))


def shared(seed: int, late: bool) -> list:
    """Races of a run: number of the access, byte, the other's tag and use."""
    found, random = [], Random(seed)
    ledger = SharedLedger(GROUPS, STRIDE, lambda number, conflict: found.append((number, conflict)))
    for number in range(60):
        event = random.choice.random()
        if event < 0.15:
            ledger.at_barrier(np.array([[0], [1], [0, 1], [0, 1]][random.choice.integers(4)]))
        elif event < 0.2:
            start = int(random.choice.integers(SIZE // 16)) * 16
            ledger.forget_range(start, start + 16)
        else:
            use, at, size, groups, waves = random.access([0, 1])
            tags = (waves + 1).astype(np.int32)
            item, values = random.item(use, at, size, tags, number)
            if not (late and ledger.keep(item, groups)):
                note(found, number, ledger.note_of(groups, use, at, size, tags, values))
    ledger.settle()
    return sorted(found, key=lambda each: each[0])


def lanes(seed: int, late: bool) -> list:
    """The same of lanes of three warps."""
    found, random, epochs = [], Random(seed), np.zeros(GROUPS, np.int64)
    ledger = LaneLedger(SIZE, GROUPS, lambda number, conflict: found.append((number, conflict)))
    for number in range(60):
        if random.choice.random() < 0.2:
            met = np.array([[0], [1], [0, 1]][random.choice.integers(3)])
            epochs = epochs.copy()
            epochs[met] += 1
            ledger.at_barrier(met)
            continue
        use, at, size, warps, which = random.access([0, 1])
        at = np.where(random.choice.random() < 0.1, at % STRIDE, at)
        tags = lane_tags(warps, epochs[warps], which)
        item, values = random.item(use, at, size, tags, number)
        if not (late and ledger.keep(item, warps)):
            note(found, number, ledger.note_of(warps, use, at, size, tags, values))
    ledger.settle()
    return sorted(found, key=lambda each: each[0])


def whole(seed: int, late: bool) -> list:
    """The same of global memory."""
    found, random, epochs = [], Random(seed), np.zeros(GROUPS, np.int64)
    races = GlobalRaces(GROUPS, lambda number, where, conflict: found.append((number, conflict)))
    where = Allocation("x", 0, SIZE)
    for number in range(60):
        if random.choice.random() < 0.1:
            epochs = epochs + random.choice.integers(0, 2, GROUPS)
            continue
        use, at, size, groups, waves = random.access([0, 1])
        if use is Use.ATOMIC and random.choice.random() < 0.8:
            continue
        tags = global_tags(groups, epochs[groups], waves)
        item, values = random.item(use, at, size, tags, number)
        if not (late and use is not Use.ATOMIC and races.keep(where, item)):
            note(found, number, races.note(use, where, at, size, tags, values))
    races.settle()
    return sorted(found, key=lambda each: each[0])


@pytest.mark.parametrize("run", [shared, lanes, whole])
def test_later_is_as_at_once(run):
    races = quiet = 0
    for seed in range(60):
        at_once, later = run(seed, late=False), run(seed, late=True)
        assert later == at_once, seed
        races, quiet = races + bool(at_once), quiet + (not at_once)
    assert races > 10
    assert quiet > 10


def test_a_word_that_changes_after_it_was_written_is_kept_as_it_was():
    """Registers are views: what a write held must not become what they hold later."""
    found = []
    ledger = SharedLedger(1, 64, lambda number, conflict: found.append(number))
    register = np.array([[7]], np.uint32)
    for number, tag in enumerate((1, 2)):
        assert ledger.keep(
            Kept(Use.WRITE, np.array([0]), 4, lambda tag=tag: np.array([tag], np.int32), register, number), slice(None)
        )
        register[:] = 9
    ledger.at_barrier(np.array([0]))
    assert found == [1]
