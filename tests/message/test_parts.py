"""Messages of typed parts: joined, grouped, named, put into words."""

from __future__ import annotations

import pytest

from xlagraph.cause.names import holder_name
from xlagraph.message import (
    A,
    B,
    Change,
    Code,
    GraphName,
    HloName,
    Listing,
    Message,
    Operation,
    Quoted,
    SourceLine,
    grouped,
    join,
    say,
    spans,
    words,
)
from xlagraph.run.legacy import tensor_of
from xlagraph.tensors import AUTOGRAD, Holder, Role, Tensor

WEIGHT = Tensor("fc", "weight", Role.PARAMETER)


def test_parts_stay_apart_and_own_words_flow_together():
    message = say("a ", "b ", WEIGHT, say(" in ", A), "")
    assert message == Message(("a b ", WEIGHT, " in ", A))
    assert words(message) == "a b fc.weight in A"
    assert message + "!" == say(message, "!")
    assert not say("", say())


def test_a_message_cannot_be_flattened_by_accident():
    with pytest.raises(TypeError, match="say"):
        f"{say('a')}"


def test_sides_get_the_names_of_graphs():
    message = say(A, " against ", B).named("D", "E")
    assert message.parts == (GraphName("D"), " against ", GraphName("E"))
    assert words(message) == "D against E"


def test_a_sentence_begins_with_a_capital_letter_of_ours_only():
    assert words(say("an input").sentence) == "An input"
    assert words(say(Code("x"), " is").sentence) == "x is"
    assert words(say().sentence) == ""


def test_every_part_has_a_kind():
    message = say(
        "t", A, GraphName("D"), WEIGHT, SourceLine("x.py", 3), HloName("add.1", "add"),
        HloName("main"), Operation("mul"), Code("self.x"), Quoted("{0}"), Change("1", "2"),
    )  # fmt: skip
    assert spans(message) == (
        ("text", "t"),
        ("graph", "A"),
        ("graph", "D"),
        ("tensor", "fc.weight"),
        ("source", "x.py:3"),
        ("hlo", "add.1"),
        ("hlo", "main"),
        ("hlo", "mul"),
        ("code", "self.x"),
        ("quoted", "{0}"),
        ("quoted", "1 -> 2"),
    )


def test_statements_to_type_stand_on_lines_of_their_own():
    typed = Listing(("a = 1", "b = a"))
    assert words(say("Write: ", typed, " Then run it.")) == "Write:\na = 1\nb = a\nThen run it."
    assert words(say(typed)) == "a = 1\nb = a"
    assert spans(say(typed)) == (("listing", "a = 1\nb = a"),)


def test_long_texts_are_cut_where_they_differ():
    same = "x" * 100
    assert words(say(Quoted("y" * 300))) == "y" * 117 + "..."
    assert words(say(Change(f"{same}, a=1", f"{same}, a=2", "became"))) == "...a=1 became ...a=2"
    assert words(say(Change("0.1", "0.3"))) == "0.1 -> 0.3"


def test_rows_are_cut_and_counted():
    assert words(join(["a", "b", "c"])) == "a, b, c"
    assert words(join("abcdef", 2)) == "a, b and 4 more"
    assert words(join(["a", say("b", A)], 9, "; ")) == "a; bA"
    assert not join([])


def test_shards_are_gathered_by_their_module():
    shards = [Tensor("blocks.0", name, Role.BUCKET, shard=True) for name in ("w", "b", "w")]
    held = Tensor("blocks.1", "w", Role.HELD, shard=True)
    assert words(grouped([*shards, say(held, " (f32[4])")])) == (
        "blocks.0: w x2, b; blocks.1: gradient of w, held by its callback (f32[4])"
    )
    many = [Tensor(f"b{k}", "w", Role.BUCKET, shard=True) for k in range(5)]
    assert words(grouped(many)) == "b0: w; b1: w; 3 tensors of 3 more modules"
    assert words(grouped([WEIGHT, "f32[4]", "f32[4]"])) == "fc.weight, f32[4] x2"


@pytest.mark.parametrize(
    ("text", "tensor"),
    [
        ("fc.weight", Tensor("fc", "weight")),
        ("weight", Tensor("", "weight")),
        ("fc.weight.grad", Tensor("fc", "weight", Role.GRADIENT)),
        ("w (SGD momentum_buffer)", Tensor("", "w", Role.STATE, "SGD", "momentum_buffer")),
        ("a.b: c.w shard", Tensor("a.b", "c.w", Role.BUCKET, shard=True)),
        ("waiting gradient of a: w shard", Tensor("a", "w", Role.WAITING, shard=True)),
        ("gradient of a: w shard, held by its callback", Tensor("a", "w", Role.HELD, shard=True)),
    ],
)
def test_older_names_are_read_as_values_and_said_as_they_were(text, tensor):
    assert tensor_of(text) == tensor
    assert str(tensor) == text


@pytest.mark.parametrize("text", ["", "f32[4]", "(f32[4], s32[])"])
def test_a_shape_is_no_tensor(text):
    assert tensor_of(text) is None


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (Holder("list", "history[0]", "train"), "history[0] in module train (list)"),
        (Holder("dict", "['x']"), "['x'] (dict)"),
        (Holder("closure"), "a closure"),
        (Holder("Mine", "cache[0]"), "cache[0] (Mine)"),
        (Holder("variable", "loss", "train"), "loss in module train"),
        (Holder("attribute", "last", "Model"), "attribute last of a Model object"),
        (Holder("", "words of an older capture"), "words of an older capture"),
        (AUTOGRAD, "C++ only (autograd, or the base of a view)"),
    ],
)
def test_what_holds_a_tensor(holder, said):
    assert str(holder_name(holder)) == said


def test_a_name_keeps_its_capital_letter_within_a_sentence():
    assert str(say("Python numbers change").clause) == "Python numbers change"
    assert str(say("FSDP waits").clause) == "FSDP waits"
    assert str(say("Values change").clause) == "values change"
