"""Whether real processes hang where the tool says so, and finish where it says that they match.

Each trial makes a program of collectives for two to four ranks, gives one rank an edited copy
(`tests/rank_programs.py`), predicts what comes of it, and runs it: real XLA, a process for each
rank, Gloo on the loopback address (`tests/gloo_oracle.py`; needs jaxlib only). Where a match is
predicted all must finish with the values that the unedited program gives. Where a hang is predicted
they must not finish. Where collectives are predicted not to match, they must not finish, or not
with the values that each program gives among ranks that run the same.

    python benchmarks/hangs.py [--trials 36] [--seed 1] [--table]

The exit code is 1 if a certain prediction was wrong. ``--table`` prints the rows of docs/ranks.md.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from gloo_oracle import Together, run_together  # noqa: E402
from rank_programs import EDITS, Program, base_program, edited, text_of  # noqa: E402

from xlagraph.collectives.program import program_of  # noqa: E402
from xlagraph.hlo import read_module  # noqa: E402
from xlagraph.ranks.match import match  # noqa: E402
from xlagraph.ranks.model import Executed, Matching, Outcome, Plan  # noqa: E402

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Pair:
    """Ranks that run one program, and one rank that runs an edited copy."""

    edit: str
    world: int
    odd: int
    base: Program
    other: Program
    spmd: bool

    @property
    def grid(self) -> tuple[int, int]:
        """Replicas and partitions."""
        return (1, self.world) if self.spmd else (self.world, 1)

    def texts(self, rank: int) -> list[str]:
        """The modules of a rank."""
        return self.texts_of(self.other if rank == self.odd else self.base)

    def texts_of(self, program: Program) -> list[str]:
        """The modules of a program."""
        return [text_of(calls, self.grid) for calls in program]


def make_pair(seed: int) -> Pair:
    """The pair of a seed; the edits take turns."""
    chance = random.Random(seed)
    edit = EDITS[seed % len(EDITS)]
    while True:
        world = 4 if edit in ("groups", "group-order") else chance.choice((2, 3, 4))
        base = base_program(chance, world)
        other = edited(chance, base, world, edit)
        if other is not None:
            return Pair(edit, world, chance.randrange(world), base, other, chance.random() < 0.5)


def predicted(pair: Pair) -> Matching:
    """What the tool says."""
    programs, plans = {}, []
    for rank in range(pair.world):
        texts = pair.texts(rank)
        for text in texts:
            programs.setdefault(text, program_of(read_module(text)).among(pair.world))
        executed = tuple(Executed(step, text) for step, text in enumerate(texts))
        plans.append(Plan(rank, executed, ended=True))
    return match(plans, programs, pair.world)


def is_right(pair: Pair, said: Matching, seen: Together) -> bool:
    """Whether what was seen is what was said."""
    if said.outcome is Outcome.HANG:
        return seen.end != "finished"
    if said.outcome is Outcome.MATCH:
        if pair.edit == "divide":  # its second module begins with other values
            return seen.end == "finished"
        return seen.end == "finished" and _last(seen) == _last(_alone(pair, pair.base))
    if seen.end != "finished":
        return True
    wanted = [_last(_alone(pair, program))[0] for program in (pair.base, pair.other)]
    got = _last(seen)
    return any(not _equal(one, wanted[k == pair.odd]) for k, one in enumerate(got))


def _alone(pair: Pair, program: Program) -> Together:
    """All ranks run one program."""
    return run_together([pair.texts_of(program)] * pair.world, pair.grid)


def _last(seen: Together) -> list[tuple[float, ...]]:
    """What each rank's last module with collectives gave."""
    return [tuple(round(x, 3) for x in rank[-1][0]) for rank in seen.values]


def _equal(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(abs(x - y) <= TOLERANCE * max(1.0, abs(y)) for x, y in zip(one, other, strict=True))


def main() -> None:
    """Makes, predicts, runs, counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    wrong = 0
    for seed in range(options.seed, options.seed + options.trials):
        pair = make_pair(seed)
        said = predicted(pair)
        seen = run_together([pair.texts(rank) for rank in range(pair.world)], pair.grid)
        right = not said.certain or is_right(pair, said, seen)
        wrong += not right
        word = said.outcome.value + ("" if said.certain else "?")
        reason = said.reason.value if said.reason else ""
        counts[pair.edit, f"{word} ({reason})" if reason else word, seen.end] += 1
        kind = "spmd" if pair.spmd else "replicas"
        print(
            f"{seed:4d} {pair.edit:15s} {pair.world} {kind:8s} said {word} {reason:12s} "
            f"seen {seen.end} {seen.seconds:.1f} s {'' if right else 'WRONG'}",
            flush=True,
        )
        if not right:
            print(seen, *(text for rank in (pair.odd, pair.odd - 1) for text in pair.texts(rank)))
    if options.table:
        for (edit, word, end), number in sorted(counts.items()):
            print(f"| {edit} | {word} | {end} | {number} |")
    print(f"{options.trials} pairs, {wrong} predicted wrongly")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
