"""The rules: collected, in order, each with examples that show what it says."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from real_modules import explained_run
from wording import JARGON

import xlagraph.rules
from xlagraph.catalogue import UnknownKindError, find_kind, kinds
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Context
from xlagraph.cause.rule import Rule, RuleError, in_order
from xlagraph.explain import explain_modules
from xlagraph.explain.registry import rules
from xlagraph.inputs import is_run, open_module
from xlagraph.message import SourceLine
from xlagraph.ranks.explain import explain_ranks
from xlagraph.streams.analyze import analyze
from xlagraph.streams.kinds import KINDS as STREAM_KINDS
from xlagraph.streams.log import Log
from xlagraph.streams.model import Kind as StreamKind

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
NO_EXAMPLE = {"dead-code", "repeated-constants", "frontend-attributes", "header"} | {
    *("execution-thread", "unlike-graph", "unexplained", "race", "latent-reuse"),
    *("call-option", "unprinted-values", "zeroed-gradient"),
}
"""No real program here shows these alone; tests/explain edits real text for the first five, and
shows a call's option on a pair of protobufs, tests/runs large constants at the level watch; the
programs of the last one run."""


NEVER_FIRST = {"own-graph", "by-design"}
"""No compile beyond warm-up has these for its cause."""


def rule(name: str, **options: tuple[str, ...]) -> Rule:
    return Rule(name=name, kinds=(), find=lambda _: [], **options)


def names(*given: Rule) -> str:
    return " ".join(one.name for one in in_order(given))


@pytest.mark.parametrize(
    "kind", [k for k in kinds().values() if k.section is not Section.STREAMS], ids=str
)
def test_a_kind_fits_into_the_lines_of_a_verdict(kind: Kind):
    if kind.id not in NEVER_FIRST and kind.section is not Section.RANKS:
        assert len((kind.short or kind.title).split()) <= 8, "give it a `short`"
    assert len((kind.short_fix or kind.fix).split()) <= 12, "give it a `short_fix`"
    assert not (kind.short or "x").endswith(".")
    told = (kind.title, kind.short, kind.fix, kind.short_fix, kind.evidence, kind.proof)
    assert [word for text in told for word in JARGON.findall(text)] == [], "say it plainly"


def test_rules_stand_where_they_say():
    assert names(rule("b"), rule("a"), rule("c")) == "a b c"
    assert names(rule("a", after=("c",)), rule("b", after=("a",)), rule("c")) == "c a b"
    assert names(rule("c", before=("a",)), rule("b"), rule("a", after=("b",))) == "b c a"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((rule("a"), rule("a")), "two rules are called 'a'"),
        ((rule("a", after=("b",)), rule("b", after=("a",))), "in a circle: "),
        ((rule("a", before=("a",)),), "in a circle: a -> a"),
        ((rule("a", after=("x",)),), "'x', which is no rule"),
    ],
)
def test_rules_that_contradict_each_other_are_refused(given, said):
    with pytest.raises(RuleError, match=said):
        in_order(given)


def test_a_kind_belongs_to_one_rule():
    kind = find_kind("dtype")
    with pytest.raises(RuleError, match="b and a both define 'dtype'"):
        in_order([replace(rule("a"), kinds=(kind,)), replace(rule("b"), kinds=(kind,))])


def test_every_file_of_the_package_is_a_rule_or_gives_kinds():
    files = {p.stem for p in (ROOT / "xlagraph" / "rules").rglob("*.py")} - {"__init__"}
    modules = {one.find.__module__.rpartition(".")[2] for one in rules()}
    assert files - modules == {"same_computation", "growing_input"}


def test_each_rule_says_which_it_follows():
    """Ties are broken by name; here there are none, so that a new file moves nothing."""
    ordered = rules()
    for before, after in pairwise(ordered):
        is_said = before.name in after.after or after.name in before.before
        assert is_said, f"{before.name} comes before {after.name}: let one of them name the other"


def test_every_kind_that_the_code_makes_is_in_the_catalogue():
    made = set()
    for path in (ROOT / "xlagraph").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Kind":
                made |= {k.value.value for k in node.keywords if k.arg == "id"}
    assert made == set(kinds())


@pytest.mark.parametrize("kind", kinds().values(), ids=str)
def test_a_kind_says_everything(kind: Kind):
    assert kind.title[0].isupper()
    assert not kind.title.endswith(".")
    for text in (kind.meaning, kind.evidence, kind.fix, kind.proof):
        assert text.endswith(".")
        assert "  " not in text
        assert "\n" not in text
    for program in (kind.before, kind.after):
        ast.parse(program.replace("...\n", "pass\n"))
        assert all(len(line) <= 96 for line in program.splitlines())
    assert set(kind.consequences) <= set(kinds())
    assert bool(kind.before) or kind.section in (Section.SAME, Section.RUN, Section.HEADER)
    assert bool(kind.examples) != (kind.id in NO_EXAMPLE)


def explanations_of(example: str) -> list[tuple[str, bool]]:
    """The kinds that an example's explanation names, and whether they are proved."""
    log = FIXTURES / "streams" / f"{example}.jsonl.zst"
    if log.exists():
        found = analyze(Log.open(str(log))).findings
        return [(str(one.kind), bool(one.proof and one.proof.proved)) for one in found]
    ranks = str(FIXTURES / "ranks" / example)
    if is_run(ranks):
        compared = explain_ranks(explained_run(Path(ranks)))
        return [(kind.id, compared.is_certain) for kind in compared.kinds] if compared else []
    for folder in ("pairs", "runs"):
        path = str(FIXTURES / folder / example)
        if is_run(path):
            explained = explained_run(Path(path))
            found = [(group.kind.id, group.proved) for group in explained.groups]
            causes = [
                (cause.kind.id, cause.proved)
                for node in explained.graphs
                for cause in (node.explanation.causes if node.explanation else ())
            ]
            return found + causes
    a, b = (str(FIXTURES / "module_pairs" / f"{example}.{side}.hlo.gz") for side in "ab")
    first, second = open_module(a), open_module(b)
    contexts = [Context(call_site=site) for site in CALL_SITES.get(example, (None, None))]
    explanation = explain_modules(first.module, second.module, *contexts)
    return [(cause.kind.id, cause.proved) for cause in explanation.causes]


CALL_SITES = {"evaluation": (SourceLine("train.py", 8), SourceLine("train.py", 20))}
"""Where a capture would have seen the syncs of a pair that has no capture."""
EXAMPLES = [(kind, example) for kind in kinds().values() for example in kind.examples]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=lambda value: str(value))
def test_every_example_shows_its_kind(kind: Kind, example: str):
    if (ROOT / "examples" / "scenarios" / f"{example}.py").exists() and kind.id == "first-graph":
        assert ("first-graph", False) in explanations_of(example)
        return
    found = explanations_of(example)
    assert kind.id in {name for name, _ in found}
    assert (kind.id, True) in found or not kind.is_cause or example in UNPROVED


UNPROVED = {"evaluation", "train_or_eval", "print_tensor"} | {
    *("layer_drop", "adapters_in_turn", "hooks_again"),
}
"""Pairs with other differences that have no proof, a graph that has no pair, and what the records
tell."""


def test_all_scenarios_show_something():
    programs = {p.stem for p in (ROOT / "examples" / "scenarios").glob("[!_]*.py")}
    named = {example for _, example in EXAMPLES}
    assert programs - named <= {"bucket_carry", "bucket_fixed"}, "these are fixtures/runs"


def test_an_unknown_kind_is_an_error_that_helps():
    with pytest.raises(UnknownKindError, match="did you mean bucket-carry"):
        find_kind("bucket_carry")


def test_the_package_imports_no_rule_by_itself():
    assert not [name for name in vars(xlagraph.rules) if name.isupper()]


def test_what_the_analysis_of_streams_finds_is_in_the_catalogue():
    assert {str(kind) for kind in StreamKind} == {kind.id for kind in STREAM_KINDS}
