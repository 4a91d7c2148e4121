"""Explains pairs of modules that have nothing to do with each other, in both directions.

Every dialect text is set beside every other one, and every committed real module beside some of
its neighbours by name. What raises anything is printed with its traceback, and so is a pair that is
*same* in one direction only; the exit code is 1 if there is one.

    python fuzz/pairs.py [--part K --parts N]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from real_modules import real_texts  # noqa: E402

from xlagraph.errors import InputError  # noqa: E402
from xlagraph.explain import explain_modules  # noqa: E402
from xlagraph.graph import Module  # noqa: E402
from xlagraph.hlo import read_module  # noqa: E402
from xlagraph.inputs import open_module  # noqa: E402

STEPS = (1, 2, 7, 31)
"""How far apart in the list of real modules two are that make a pair."""
LARGEST = 400_000
"""Characters of a real module up to which it takes part."""


def dialects() -> list[Module]:
    """The dialect texts that are modules."""
    found = []
    for path in sorted((ROOT / "fixtures" / "dialects").iterdir()):
        try:
            found.append(open_module(str(path)).module)
        except InputError as error:
            print(f"left out: {path.name}: {error.message}")
    return found


def pairs() -> Iterator[tuple[Module, Module]]:
    """Each pair once, in one direction."""
    yield from itertools.combinations_with_replacement(dialects(), 2)
    texts = {name: text for name, text in real_texts().items() if len(text) < LARGEST}
    real = [read_module(text, name) for name, text in sorted(texts.items())]
    for step in STEPS:
        for k, module in enumerate(real):
            yield module, real[(k + step) % len(real)]


def fault(a: Module, b: Module) -> str:
    """What goes wrong with a pair, empty where nothing does."""
    try:
        there, back = explain_modules(a, b), explain_modules(b, a)
    except Exception:  # noqa: BLE001 - a crash of any kind is what is looked for
        return traceback.format_exc()
    return "the same in one direction only" if there.diff.same != back.diff.same else ""


def main() -> int:
    """Goes over all pairs and prints what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    arguments = parser.parse_args()
    tried = wrong = 0
    slowest = (0.0, "")
    for a, b in itertools.islice(pairs(), arguments.part, None, arguments.parts):
        start = time.process_time()
        said = fault(a, b)
        slowest = max(slowest, (time.process_time() - start, f"{a.file} and {b.file}"))
        tried += 1
        if said:
            wrong += 1
            print(f"{a.file} and {b.file}: {said}", flush=True)
    took, names = slowest
    print(f"{tried} pairs in both directions, {wrong} wrong; slowest {took:.1f} s: {names}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
