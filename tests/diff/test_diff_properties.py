"""Laws that every comparison obeys, on real modules changed at random."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from module_edits import (
    shuffled,
    with_constants_split,
    with_dead_code,
    with_outputs_permuted,
    with_parameters_permuted,
)
from real_modules import ROOT, graph

from xlagraph.canon.form import digest
from xlagraph.canon.labels import Level
from xlagraph.diff import diff_modules
from xlagraph.diff.same import same_computation
from xlagraph.diff.script import edit_script, replay

SMALL = ("carry:A", "carry:B", "carry:C")
LARGE = ("carry:D", "carry:E", "carry:F", "carry:G", "fixed:D", "fixed:E")
seeds = st.integers(0, 2**32)
slow = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))

HARMLESS = {
    "shuffled": (shuffled, Level.DEAD_CODE),
    "dead code": (with_dead_code, Level.DEAD_CODE),
    "constants": (with_constants_split, Level.DUPLICATE_CONSTANTS),
    "parameters": (with_parameters_permuted, Level.PARAMETER_ORDER),
    "outputs": (with_outputs_permuted, Level.OUTPUT_ORDER),
}


@pytest.mark.parametrize("edit", HARMLESS)
@pytest.mark.parametrize("name", [*SMALL, "carry:G"])
@slow
@given(seed=seeds)
def test_the_levels_forgive_from_theirs_on(name: str, edit: str, seed: int) -> None:
    change, level = HARMLESS[edit]
    module = graph(name)
    changed = change(shuffled(module, seed), seed)
    for forgiving in Level:
        if forgiving >= level:
            assert digest(module, forgiving) == digest(changed, forgiving)


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_a_module_does_not_differ_from_itself(name: str) -> None:
    module = graph(name)
    diff = diff_modules(module, module)
    assert diff.same
    assert diff.differing == 0
    assert not diff.header
    assert len(edit_script(diff)) == 0


@pytest.mark.parametrize("edit", [e for e in HARMLESS if e != "outputs"])
@pytest.mark.parametrize("name", ["carry:B", "carry:G"])
@slow
@given(seed=seeds)
def test_noise_is_not_a_difference(name: str, edit: str, seed: int) -> None:
    module = graph(name)
    changed = HARMLESS[edit][0](shuffled(module, seed), seed)
    diff = diff_modules(module, changed)
    assert diff.differing == 0
    assert same_computation(module, changed)


PAIRS = [(a, b) for a in (*SMALL, *LARGE) for b in (*SMALL, *LARGE) if a < b]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_replaying_the_script_on_a_gives_b(first: str, second: str) -> None:
    a, b = graph(first), graph(second)
    made = replay(edit_script(diff_modules(a, b)), a)
    assert same_computation(made, b)
    assert made.header == b.header
    assert digest(made, Level.DUPLICATE_CONSTANTS) == digest(b, Level.DUPLICATE_CONSTANTS)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_mirror_image_is_the_same_difference(first: str, second: str) -> None:
    there = diff_modules(graph(first), graph(second))
    back = diff_modules(graph(second), graph(first))
    assert there.match.to_b == back.match.to_a
    assert there.removed == back.added
    assert there.added == back.removed
    assert {(c.a, c.b, c.fields) for c in there.changes} == {
        (c.b, c.a, c.fields) for c in back.changes
    }
    assert {(s.a, s.b) for s in there.outputs} == {(s.b, s.a) for s in back.outputs}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_only_equal_modules_are_called_the_same(first: str, second: str) -> None:
    """The exact walk agrees with the digests, which are computed in another way."""
    a, b = graph(first), graph(second)
    level = Level.PARAMETER_ORDER
    assert same_computation(a, b) == (digest(a, level) == digest(b, level))


def test_results_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from real_modules import graph\n"
        "from xlagraph.diff import diff_modules\n"
        "from xlagraph.diff.script import edit_script\n"
        "from xlagraph.canon.form import level_digests\n"
        "from xlagraph.explain import explain_modules\n"
        "a, b = graph('carry:E'), graph('carry:G')\n"
        "d = diff_modules(a, b)\n"
        "e = explain_modules(a, b)\n"
        "print(level_digests(a), list(d.match.to_b), d.changes, d.removed, d.added, d.outputs)\n"
        "print(len(edit_script(d)), e.verdict, [(c.title, c.evidence, c.share) for c in e.causes])"
    )
    results = set()
    for seed in ("0", "1", "4711"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), env.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        results.add(done.stdout)
    assert len(results) == 1
