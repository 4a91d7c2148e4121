"""Whether XLA agrees whenever the tool says *same*: random changes of real modules, run by XLA.

Each trial takes a committed real module, changes it at random once or a few times, in its graph
or in its text (`tests/random_edits.py`), and compares the two as ``xlagraph diff`` does. Where that
says *same*, XLA must print both alike (names and metadata left out), or else compile and run both
on the CPU with the same random arguments, matched as the comparison says, with the same results and
the same instructions with effects kept. A trial counts if XLA's parser reads the changed text.

    python benchmarks/same.py [--trials 10000] [--seed 1] [--seconds S] [--show] [--explain]
        [--values]

The exit code is 1 if XLA disagrees with one *same*, or if anything crashed. ``--explain`` also
explains each pair in both directions, for crashes only; ``--values`` evaluates those that differ,
and has XLA run those that are said to give the same values; ``--seconds`` ends it early. Needs
jaxlib (``pip install xlagraph[test]``).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from random_edits import changed  # noqa: E402
from real_modules import real_texts  # noqa: E402
from xla_oracle import NoAnswerError, Oracle  # noqa: E402

from xlagraph.diff import Diff, diff_modules  # noqa: E402
from xlagraph.errors import InputError  # noqa: E402
from xlagraph.evaluate import same_values  # noqa: E402
from xlagraph.explain import explain_modules  # noqa: E402
from xlagraph.graph import Module  # noqa: E402
from xlagraph.hlo import read_module  # noqa: E402

LARGEST = 2_500
"""Instructions of a module up to which it takes part: XLA has to compile each change of it."""
PRINTED = "same, XLA prints one text"
AGREES = "same, XLA's results agree"
MAX_TRIES = 40
"""Changes tried for one trial until XLA reads one."""


def usable(texts: dict[str, str], oracle: Oracle) -> dict[str, str]:
    """Those that XLA's CPU can run, each text once."""
    found: dict[str, str] = {}
    seen = set()
    for name, text in texts.items():
        if text in seen or "{...}" in text or text.count("\n") > LARGEST:
            continue
        seen.add(text)
        try:
            oracle.acting(text)
        except NoAnswerError:
            continue
        found[name] = text
    return found


class Trials:
    """Counts over all trials, and what went wrong."""

    def __init__(self, oracle: Oracle, *, explain: bool, values: bool):
        self.oracle, self.explain, self.values = oracle, explain, values
        self.counts: Counter[str] = Counter()
        self.by_edit: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.reasons: Counter[str] = Counter()

    def one(self, name: str, text: str, module: Module, chance: random.Random) -> bool:
        """One trial; False if XLA reads none of the changes."""
        for _ in range(MAX_TRIES):
            other, done = changed(module, text, chance)
            if other == text:
                continue
            try:
                self.oracle.printed(other)
            except NoAnswerError:
                self.counts["changes that XLA refuses"] += 1
                continue
            self._compare(f"{name} ({done})", done, text, other, module)
            return True
        return False

    def _compare(self, label: str, done: str, text: str, other: str, module: Module) -> None:
        try:
            b = read_module(other, "changed")
        except InputError as error:
            self._count("refused here", done)
            self.reasons[f"refused: {error.message}"] += 1
            return
        try:
            diff = diff_modules(module, b)
            back = diff_modules(b, module)
            if self.explain:
                explain_modules(module, b)
                explain_modules(b, module)
        except Exception:  # noqa: BLE001 - a crash of any kind is what is looked for
            self._wrong("crash", label, done, text, other, traceback.format_exc())
            return
        if diff.same != back.same:
            self._wrong("one direction only", label, done, text, other, "")
        if not diff.same:
            self._values(label, done, text, other, diff)
            return
        if self.oracle.printed(text) == self.oracle.printed(other):
            self._count(PRINTED, done)
            return
        try:
            said = self.oracle.disagreement(diff, text, other)
        except NoAnswerError as error:
            self._count("same, XLA cannot run it", done)
            self.reasons[f"not run: {str(error)[:100]}"] += 1
            return
        if said:
            self._wrong("same, XLA disagrees", label, done, text, other, said)
        else:
            self._count(AGREES, done)

    def _values(self, label: str, done: str, text: str, other: str, diff: Diff) -> None:
        """Asks whether XLA finds the same values where they are said to be."""
        found = same_values(diff) if self.values else None
        if found is None or found.handed_in or found.assumed or found.in_rows:
            self._count("different", done)
            return
        try:
            said = self.oracle.other_values(found, text, other)
        except NoAnswerError as error:
            self._count("same values, XLA cannot run it", done)
            self.reasons[f"not run: {str(error)[:100]}"] += 1
            return
        if said:
            self._wrong("same values, XLA disagrees", label, done, text, other, said)
        else:
            self._count("same values, XLA's results agree", done)

    def _count(self, what: str, done: str) -> None:
        self.counts[what] += 1
        for edit in done.split():
            self.by_edit[edit, what] += 1

    def _wrong(self, what: str, label: str, done: str, text: str, other: str, why: str) -> None:
        self._count(what, done)
        self.wrong.append(f"{what}: {label}: {why}")
        folder = Path("same-failures")
        folder.mkdir(exist_ok=True)
        number = len(self.wrong)
        (folder / f"{number}.a.hlo").write_text(text)
        (folder / f"{number}.b.hlo").write_text(other)


def main() -> int:
    """Runs the trials and prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--show", action="store_true", help="print why what was not run was not")
    parser.add_argument("--explain", action="store_true", help="explain each pair, too")
    parser.add_argument("--values", action="store_true", help="evaluate those that differ, too")
    arguments = parser.parse_args()
    with Oracle(seconds=15) as oracle:
        texts = usable(real_texts(), oracle)
        print(f"{len(texts)} real modules that XLA's CPU runs", flush=True)
        trials = Trials(oracle, explain=arguments.explain, values=arguments.values)
        last = time.monotonic() + arguments.seconds
        done = _run(trials, texts, arguments.trials, arguments.seed, last)
    print(f"{done} changed modules, seed {arguments.seed}\n")
    for what, number in sorted(trials.counts.items()):
        print(f"{number:>8,}  {what}")
    print()
    edits = sorted({edit for edit, _ in trials.by_edit})
    columns = (PRINTED, AGREES, "same, XLA cannot run it", "same, XLA disagrees", "different")
    print(f"| edit | {' | '.join(columns)} |")
    print("|---|---:|---:|---:|---:|---:|")
    for edit in edits:
        print(f"| {edit} | {' | '.join(str(trials.by_edit[edit, what]) for what in columns)} |")
    if arguments.show:
        for reason, number in trials.reasons.most_common():
            print(f"{number:>8,}  {reason}", file=sys.stderr)
    for wrong in trials.wrong:
        print(wrong)
    return 1 if trials.wrong else 0


def _run(trials: Trials, texts: dict[str, str], number: int, seed: int, last: float) -> int:
    """Equally many trials for each module, module by module in random order, until `last`."""
    done = 0
    order = random.Random(seed).sample(list(texts.items()), len(texts))
    for k, (name, text) in enumerate(order):
        if time.monotonic() > last:
            break
        module = read_module(text, name)
        chance = random.Random(seed * 1_000_003 + k)
        share = number * (k + 1) // len(texts) - number * k // len(texts)
        if sys.stderr.isatty():
            print(f"\r{k} of {len(texts)} modules, {done} changes", end="", file=sys.stderr)
        for _ in range(share):
            done += trials.one(name, text, module, chance)
    return done


if __name__ == "__main__":
    sys.exit(main())
