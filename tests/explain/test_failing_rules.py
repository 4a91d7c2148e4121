"""A rule that raises costs the explanation what it would have found, and no more."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from xlagraph.cause.case import Case
from xlagraph.cause.finding import Finding
from xlagraph.cause.rule import Rule
from xlagraph.errors import RuleWarning
from xlagraph.explain import explain_modules, modules
from xlagraph.explain.registry import rules
from xlagraph.hlo import read_module
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE

if TYPE_CHECKING:
    from pathlib import Path

    from xlagraph.cause.editor import Editors

A = """\
HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[] constant(2)
  d = f32[4] broadcast(c), dimensions={}
  m = f32[4] multiply(p, d)
  s = f32[4] sine(m)
  ROOT r = f32[4] add(s, p)
}
"""
B = A.replace("constant(2)", "constant(3)")


def _raises(_case: Case) -> list[Finding]:
    raise IndexError("tuple index out of range")


def _cannot_undo(_edit: Editors) -> None:
    raise KeyError(7)


def _cannot_be_undone(case: Case) -> list[Finding]:
    """The finding of the rule for constants with an undo that fails, so that it is first."""
    (rule,) = (one for one in rules() if CONSTANT_VALUE in one.kinds)
    return [replace(one, undo=_cannot_undo) for one in rule.find(case)]


def _first(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    asked = (rule, *rules())
    monkeypatch.setattr(modules, "rules", lambda: asked)


@pytest.mark.parametrize("has_stricter_way", [False, True])
def test_a_rule_that_raises_is_left_out_and_named(monkeypatch, has_stricter_way):
    stricter = _raises if has_stricter_way else None
    find = (lambda _case: []) if has_stricter_way else _raises
    _first(monkeypatch, Rule(name="broken", kinds=(), find=find, stricter=stricter))
    with pytest.warns(RuleWarning, match=r"the rule broken failed .*IndexError: tuple index"):
        explanation = explain_modules(read_module(A, "a"), read_module(B, "b"))
    assert explanation.proved
    assert [cause.kind for cause in explanation.causes] == [CONSTANT_VALUE]


def test_a_last_resort_that_raises_leaves_what_the_others_found(monkeypatch):
    last = Rule(name="broken", kinds=(), find=_raises, last_resort=True)
    monkeypatch.setattr(modules, "rules", lambda: (last,))
    with pytest.warns(RuleWarning, match="the rule broken failed"):
        explanation = explain_modules(read_module(A, "a"), read_module(B, "b"))
    assert not explanation.proved
    assert not explanation.same


def test_a_cause_that_cannot_be_undone_is_not_believed_and_named(monkeypatch):
    _first(monkeypatch, Rule(name="broken", kinds=(), find=_cannot_be_undone))
    with pytest.warns(RuleWarning, match=r"undoing constant-value failed .*KeyError: 7"):
        explanation = explain_modules(read_module(A, "a"), read_module(B, "b"))
    assert not explanation.proved


def test_what_another_try_cannot_mend_is_raised(monkeypatch):
    def exhausted(_case: Case) -> list[Finding]:
        raise MemoryError

    _first(monkeypatch, Rule(name="broken", kinds=(), find=exhausted))
    with pytest.raises(MemoryError):
        explain_modules(read_module(A, "a"), read_module(B, "b"))


BROKEN = """\
import sys
from xlagraph.cause.rule import Rule
from xlagraph.cli.app import run
from xlagraph.explain import modules, registry
def raises(case):
    raise IndexError("out of range")
asked = (Rule(name="broken", kinds=(), find=raises), *registry.rules())
modules.rules = lambda: asked
run()
"""


def test_the_command_line_says_it_in_a_line_and_explains_all_the_same(tmp_path: Path):
    for name, text in (("a.hlo", A), ("b.hlo", B)):
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", BROKEN, "diff", "a.hlo", "b.hlo"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    said = "the rule broken failed and is left out; please report it (IndexError: out of range)"
    assert set(ended.stderr.splitlines()) == {f"xlagraph: {said}"}
    assert "2 became 3" in ended.stdout
