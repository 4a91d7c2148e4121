"""Edits real modules at random, in known ways, and counts what is found again.

Each trial takes a committed real module, applies one to three known edits (and always some that
mean nothing: new names, another text order, permuted parameters, dead code, repeated constants),
explains the difference and compares: pairs of instructions with the true pairs, kinds of causes
with the edits made, and where the causes point with where the edits are. "Wrong and proved" counts
trials in which a cause was proved and yet is no edit's; with any, the exit code is 1. "Proved
backwards" is about the same pairs in the other direction.

    python benchmarks/mutations.py [--trials N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from pathlib import Path

from mutate import ALONE, EDITS, Edited, noise

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.graph import Module
from xlagraph.hlo import read_module
from xlagraph.run.reader import read_run

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MODULES = 16
NOISE_KINDS = {"parameter-order", "dead-code", "repeated-constants", "metadata"}
"""What every trial adds on top, and what is named where nothing else differs."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One edit: the kinds of cause that name it rightly, and the instructions around it."""

    kinds: frozenset[str]
    site: frozenset[int]


@dataclass(slots=True)
class Score:
    """Counts over the trials with one set of edits."""

    trials: int = 0
    pairs: int = 0
    right_pairs: int = 0
    true_pairs: int = 0
    causes: int = 0
    right_causes: int = 0
    edits: int = 0
    named: int = 0
    sited: int = 0
    located: int = 0
    proved: int = 0
    proved_backwards: int = 0
    wrong_proved: int = 0

    def add(self, other: Score) -> None:
        """Adds the counts of other trials."""
        for name in Score.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def scored(
    explanation: Explanation, back: Explanation, new: dict[int, int], truths: list[Truth]
) -> Score:
    """Compares an explanation with the edits; `new` tells where old instructions are in B.

    `back` explains the same pair in the other direction.
    """
    match = explanation.diff.match
    side = match.a
    true = {
        i: new[i]
        for i in range(len(side.module))
        if side.live[i] and i in new and match.b.live[new[i]]
    }
    found = {i: y for i, y in enumerate(match.to_b) if y >= 0 and side.live[i]}
    causes = [cause for cause in explanation.causes if cause.kind.id not in NOISE_KINDS]
    kinds = {cause.kind.id for cause in causes}
    kinds_back = {cause.kind.id for cause in back.causes} - NOISE_KINDS
    allowed = frozenset[str]().union(*(truth.kinds for truth in truths))
    sited = [truth for truth in truths if truth.site]
    old = {y: i for i, y in new.items()}

    def is_located(truth: Truth) -> bool:
        mine = [cause for cause in causes if cause.kind.id in truth.kinds]
        cited = {i for c in mine for e in c.evidence for i in (*e.a, *(old[y] for y in e.b))}
        cited |= {i for c in mine for i in (*c.a, *(old[y] for y in c.b))}
        return not truth.site.isdisjoint(cited)

    return Score(
        trials=1,
        pairs=len(found),
        true_pairs=len(true),
        right_pairs=sum(1 for i, y in found.items() if true.get(i) == y),
        causes=len(kinds),
        right_causes=len(kinds & allowed),
        edits=len(truths),
        named=sum(1 for truth in truths if kinds & truth.kinds),
        sited=len(sited),
        located=sum(map(is_located, sited)),
        proved=explanation.proved,
        proved_backwards=back.proved,
        wrong_proved=bool(explanation.proved and kinds - allowed)
        or bool(back.proved and kinds_back - allowed),
    )


def modules() -> list[Module]:
    """Real modules of the committed captures, small ones first, those with buckets included."""
    found = []
    for folder in sorted((*(FIXTURES / "pairs").iterdir(), *(FIXTURES / "runs").iterdir())):
        if folder.is_dir():
            run = read_run(folder)
            found += [read_module(run.graph_text(d), folder.name) for d in run.digests()]
    usable = [m for m in found if m.entry == len(m.computations) - 1 and len(m) > 60]
    usable.sort(key=len)
    chosen = usable[:: max(1, len(usable) // MODULES)]
    buckets = [m for m in usable if m.opcodes.count("reduce-scatter") > 1 and m not in chosen]
    return [*chosen, *buckets]


def trial(module: Module, names: list[str], seed: int) -> tuple[Explanation, Score] | None:
    """Makes the edits, explains, counts; None where an edit has no place in the module."""
    chance = random.Random(seed)
    edited = Edited(module)
    truths = []
    for name in names:
        make, kinds = (EDITS | ALONE)[name]
        edited.site = set()
        if not make(edited, chance):
            return None
        truths.append(Truth(kinds, frozenset(edited.site)))
    noise(edited, chance)
    mutated, new = edited.build(chance)
    explanation, back = explain_modules(module, mutated), explain_modules(mutated, module)
    return explanation, scored(explanation, back, new, truths)


def main() -> int:
    """Runs the trials and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4, help="per module and set of edits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print each trial that went wrong")
    arguments = parser.parse_args()
    originals = modules()
    chance = random.Random(arguments.seed)
    alone = (*EDITS, *ALONE)
    sets: dict[str, tuple[int, tuple[str, ...]]] = {name: (1, (name,)) for name in alone}
    sets["nothing (noise only)"] = (0, ())
    sets["2 edits at once"] = (2, tuple(EDITS))
    sets["3 edits at once"] = (3, tuple(EDITS))
    print(
        f"{len(originals)} real modules of {len(originals[0])} to "
        f"{max(map(len, originals))} instructions\n"
    )
    print(
        "| edits | trials | pairs: precision | recall | causes: precision | recall | located "
        "| proved | proved backwards | wrong and proved |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    bad = 0
    for label, (number, among) in sets.items():
        total = Score()
        for k, module in enumerate(originals):
            for j in range(arguments.trials * max(number, 1)):
                names = chance.sample(among, number)
                done = trial(module, names, arguments.seed * 100_003 + k * 101 + j)
                if done is None:
                    continue
                explanation, score = done
                total.add(score)
                if arguments.show and not _is_right(score):
                    _show(module, names, (k, j), explanation, score)
        bad += total.wrong_proved
        print(_row(label, total), flush=True)
    print(f"\n{bad} proved explanations named a cause that no edit made.")
    return 1 if bad else 0


def _is_right(score: Score) -> bool:
    return score.named == score.edits and score.located == score.sited and not score.wrong_proved


def _show(
    module: Module, names: list[str], at: tuple[int, int], explanation: Explanation, score: Score
) -> None:
    kinds = [cause.kind.id for cause in explanation.causes]
    wrong = "WRONG" if score.wrong_proved else "" if explanation.proved else "unproved"
    print(module.file, len(module), names, *at, kinds, wrong, file=sys.stderr)


def _row(label: str, total: Score) -> str:
    return (
        f"| {label} | {total.trials} | {_part(total.right_pairs, total.pairs)} "
        f"| {_part(total.right_pairs, total.true_pairs)} "
        f"| {_part(total.right_causes, total.causes)} | {_part(total.named, total.edits)} "
        f"| {_part(total.located, total.sited)} "
        f"| {_part(total.proved, total.trials)} | {_part(total.proved_backwards, total.trials)} "
        f"| {total.wrong_proved} |"
    )


def _part(number: int, of: int) -> str:
    return f"{number / of:.1%}" if of else "-"


if __name__ == "__main__":
    sys.exit(main())
