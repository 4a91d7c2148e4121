"""Texts that XLA's parser reads and this one refuses: ``python fuzz/parsers.py --texts 20000``.

Each text is one of ``fixtures/dialects`` (or of the files named) with a few tokens changed, moved,
doubled or dropped, with space, comments and colons put between them. XLA's parser runs in a process
of its own, which some texts end. What is refused here is printed, by message; the exit code is 1 if
anything is. Needs jaxlib. XLA's parser is loose where nobody would look for it: brackets left open
in a layout, two instructions with nothing between them. Such texts are few; they are listed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from xla_oracle import NoAnswerError, Oracle  # noqa: E402

from xlagraph.errors import InputError  # noqa: E402
from xlagraph.hlo import read_module  # noqa: E402

DIALECTS = ROOT / "fixtures" / "dialects"
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*|%?[A-Za-z_][\w.\-]*|-?\d[\w.]*|<=|->|\s+|.', re.S
)
_SPACES = (" ", "\n", "\t", "/*x*/", " /* a=b */ ", "// c\n")
_LOOSE = re.compile(
    r"\bT(?:\s|/\*.*?\*/)+\(|\bmesh(?:\s|/\*.*?\*/)+\[|\](?:\s|/\*.*?\*/)*,?\s*\{'"  # in values
    r"|[\d}\])\"][A-Za-z_%][\w.\-]*\s*=(?!=)"  # an instruction right behind another
    r"|[TSEM]\([\d,]*[SEM}]|[SE]\(\d*\s*\}|^\s*=|\w\[,"  # brackets left open; no name; no size
    r"|\"ROOT|\}ROOT|\dROOT|\)ROOT",
    re.M,
)
"""What XLA's parser reads although it is no HLO that anybody would write."""


def changed(text: str, pool: list[str], chance: random.Random) -> str:
    """A text with one to three tokens changed."""
    tokens = _TOKEN.findall(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        i, choice = chance.randrange(len(tokens)), chance.random()
        j = min(len(tokens), i + chance.randrange(1, 10))
        if choice < 0.4:
            tokens.insert(i, chance.choice(_SPACES))
        elif choice < 0.5:
            tokens.insert(i + 1, chance.choice((":", ",")))
        elif choice < 0.6:
            tokens[i] = "" if not tokens[i].isspace() else chance.choice(("", "\n", " "))
        elif choice < 0.7:
            tokens[i] = chance.choice(pool)
        elif choice < 0.8:
            k = chance.randrange(len(tokens))
            tokens[i], tokens[k] = tokens[k], tokens[i]
        elif choice < 0.9:
            tokens[i:i] = tokens[i:j]
        else:
            tokens[i:j] = [""]
    return "".join(tokens)


def refused(
    texts: list[str], number: int, seed: int, oracle: Oracle
) -> Iterator[tuple[str, InputError]]:
    """Changed texts that XLA reads, and why they are refused here; loose ones left out."""
    chance = random.Random(seed)  # noqa: S311 - texts, no secrets
    pool = [token for text in texts for token in _TOKEN.findall(text)]
    for _ in range(number):
        text = changed(chance.choice(texts), pool, chance)
        try:
            read_module(text)
        except InputError as error:
            if _is_read(text, oracle) and not _LOOSE.search(text):
                yield text, error


def _is_read(text: str, oracle: Oracle) -> bool:
    try:
        oracle.printed(text)
    except NoAnswerError:
        return False
    return True


def main() -> int:
    """Prints what is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    files = arguments.files or sorted(DIALECTS.glob("*.hlo"))
    texts = [path.read_bytes().decode() for path in files]
    number = 0
    with Oracle() as oracle:
        for _, error in refused(texts, arguments.texts, arguments.seed, oracle):
            number += 1
            print(error)
    print(f"{number} of {arguments.texts} texts are refused here and read by XLA's parser")
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
