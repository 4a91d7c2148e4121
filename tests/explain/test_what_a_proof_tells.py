"""A proof tells of every input that one side alone has, and of the outputs that it sets aside."""

from __future__ import annotations

from pathlib import Path

from xlagraph.cause.finding import Finding
from xlagraph.diff import diff_modules
from xlagraph.explain import proof
from xlagraph.explain.citations import uncited_inputs
from xlagraph.explain.modules import explain_modules
from xlagraph.inputs import open_module
from xlagraph.message import say, words
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.training.accumulated_gradient import ACCUMULATED_GRADIENT

PAIRS = Path(__file__).resolve().parents[2] / "fixtures" / "pairs"


def pair(name: str):
    """Both graphs of a committed run, with what the capture knows of them."""
    return [open_module(f"{PAIRS / name}:{letter}") for letter in "AB"]


def test_a_gradient_that_comes_in_is_told_of():
    a, b = pair("gradient_never_zeroed")
    explanation = explain_modules(a.module, b.module, a.context, b.context)
    assert explanation.proved
    assert [cause.kind.id for cause in explanation.causes] == ["accumulated-gradient"]
    assert "0.weight.grad" in words(explanation.causes[0].title)


def test_an_input_is_told_of_by_what_claims_it_or_all_that_reads_it():
    a, b = pair("gradient_never_zeroed")
    diff = diff_modules(
        a.module, b.module, known=(a.context.names(a.module), b.context.names(b.module))
    )
    (gradient,) = uncited_inputs(diff, [])[1]
    assert str(b.context.input_tensor(b.module, gradient)) == "0.weight.grad"
    (reader,) = b.module.users[gradient]
    for kind, claimed, told in (
        (ACCUMULATED_GRADIENT, reader, True),
        (EXTRA_SUBGRAPH, reader, False),
        (EXTRA_SUBGRAPH, gradient, True),
    ):
        finding = Finding(kind, say(), (), say(), b=frozenset({claimed}))
        assert (uncited_inputs(diff, [finding])[1] == ()) is told


def test_outputs_that_a_proof_sets_aside_are_counted_and_named():
    a, b = pair("leak_pending")
    explanation = explain_modules(a.module, b.module, a.context, b.context)
    assert explanation.proved
    assert explanation.scope.a == ()
    assert len(explanation.scope.b) == 1
    said = str(explanation.verdict)
    assert "Proved for 7 of A's 7 and B's 8 outputs; not compared: B's output 1 (f32[])." in said
    assert words(explanation.compared) == "7 of A's 7 and B's 8 outputs"


def test_a_proof_of_everything_says_nothing_of_outputs():
    a, b = pair("python_index")
    explanation = explain_modules(a.module, b.module, a.context, b.context)
    assert explanation.proved
    assert not explanation.scope.sets_aside
    assert "outputs" not in str(explanation.verdict)


def test_modules_are_compared_again_only_where_a_proof_needs_the_rest(monkeypatch):
    """Whether causes can be left out is asked of every one; what then differs, of none."""
    compared = []

    def counted(*arguments, **named):
        compared.append(arguments)
        return diff_modules(*arguments, **named)

    monkeypatch.setattr(proof, "diff_modules", counted)
    a, b = pair("second_head")
    explanation = explain_modules(a.module, b.module, a.context, b.context)
    assert explanation.proved
    assert len(explanation.causes) == 2
    assert compared == []
