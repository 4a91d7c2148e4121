"""What every command prints to: lines without the spaces that rich fills them with."""

from __future__ import annotations

import io
import re

import pytest
from rich.table import Table
from rich.text import Text

from xlagraph.message import Code, Listing, say
from xlagraph.terminal.style import console, labelled, paragraph, print_labelled

STYLE = re.compile(r"\x1b\[[0-9;]*m")
LONG = "nineteen characters " * 8


@pytest.mark.parametrize("terminal", [False, True])
def test_no_line_ends_with_a_space(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    made = console()
    made.file = file = io.StringIO()
    assert made.is_terminal is terminal
    table = Table("a wide heading", "b", box=None)
    table.add_row("x", "")
    for one in (paragraph(LONG, 3, "bold"), labelled("Fix:", LONG, 3, 8), table):
        made.print(one)
    made.print()
    made.print(Text("    kept as it is: " + LONG), soft_wrap=True)
    lines = STYLE.sub("", file.getvalue()).split("\n")
    assert ("\x1b[1m" in file.getvalue()) is terminal
    assert [line for line in lines if line.endswith(" ")] == []
    assert lines[-1] == ""
    assert lines[-2] == "    kept as it is: " + LONG.rstrip()  # in one piece
    assert lines[-3] == ""
    assert lines[0].startswith("   nineteen")
    assert len(lines) > 10


def test_code_within_words_has_its_own_spaces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    made = console()
    made.file = file = io.StringIO()
    print_labelled(made, "Fix", say("Index with ", Code("(arange(n) - shift) % n"), "."), 0, 5)
    assert file.getvalue() == "Fix   Index with\n      (arange(n) - shift) % n.\n"


def test_statements_within_a_note_stand_below_one_another():
    made = console()
    made.file = file = io.StringIO()
    made.print(paragraph(say("If not on purpose:", Listing(("for x in y:", "    z = x")))))
    assert file.getvalue() == "If not on purpose:\n  for x in y:\n      z = x\n"


def test_statements_stand_below_one_another_and_steer_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    made = console()
    made.file = file = io.StringIO()
    typed = Listing(("if a is not b and not more than that:", "    c = '\x1b[2J'"))
    print_labelled(made, "Fix", say("Write:", typed, "Then run it."), 0, 5)
    assert file.getvalue().split("\n") == [
        "Fix   Write:",
        "        if a is not b and not more than that:",  # whole, so that it can be copied
        "            c = '\\x1b[2J'",
        "      Then run it.",
        "",
    ]
