"""A loop that Python unrolls is told by how often it runs, where lines show what it repeats."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

AT = 'metadata={{op_type="op" op_name="op" source_file="train.py" source_line={}}}'
TURNED = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
AXES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def loop(turns: int, *, further: str = "", lines: tuple[int, int] = (5, 6)) -> str:
    """A loop of two lines between a first and a last operation."""
    first, second = (AT.format(line) for line in lines)
    body = [f"v0 = f32[4,4] tanh(x), {AT.format(2)}"]
    for k in range(turns):
        body += [
            f"d{k} = f32[4,4] dot(v{k}, w), {AXES}, {first}",
            f"v{k + 1} = f32[4,4] sine(d{k}), {second}",
        ]
    last = f"v{turns}"
    if further:
        body.append(f"more = f32[4,4] {further}({last}), {second}")
        last = "more"
    text = "\n  ".join(body)
    return f"""HloModule m

ENTRY main {{
  x = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  {text}
  ROOT r = f32[4,4] exponential({last}), {AT.format(9)}
}}
"""


def told(a: str, b: str) -> list[str]:
    return [str(cause.in_short) for cause in explain_modules(*map(read_module, (a, b))).causes]


def test_a_loop_of_one_turn_more_is_told_with_both_numbers() -> None:
    assert told(loop(3), loop(4)) == [
        "a piece is repeated 3 times in A and 4 times in B, as by a loop of so many turns"
    ]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (loop(1), loop(2)),  # a function may be called once more
        (loop(3), loop(4, further="cosine")),  # something else comes with it
        (loop(3), loop(3, further="cosine")),
        (loop(3, lines=(5, 5)), loop(4, lines=(5, 5))),
    ],
)
def test_other_pieces_are_no_turns(a: str, b: str) -> None:
    assert not any("repeated" in one for one in told(a, b))


def tasks(*turns: int, extra: str = "") -> str:
    """A loop of so many turns for each of several tasks, without lines, each turn of two products.

    `extra`: a weight that the last turn of the first task alone takes.
    """
    parameters = ["w = f32[4,4] parameter(0)", "v = f32[4,2] parameter(1)"]
    parameters += [f"x{n} = f32[4,4] parameter({n + 2})" for n in range(len(turns))]
    body, ends = [], []
    if extra:
        parameters.append(f"{extra} = f32[4,4] parameter({len(turns) + 2})")
    for n, number in enumerate(turns):
        last = f"x{n}"
        for k in range(number):
            one, weight = f"t{n}_{k}", "w"
            if extra and n == 0 and k == number - 1:
                weight = extra
            body += [
                f"{one}_d = f32[4,4] dot({last}, {weight}), {AXES}",
                f"{one}_h = f32[4,2] dot({one}_d, v), {AXES}",
                f"{one}_e = f32[4,4] dot({one}_h, v), {TURNED}",
                f"{one} = f32[4,4] tanh({one}_e)",
            ]
            last = one
        ends.append(f"e{n}")
        body.append(f"e{n} = f32[4,4] {'sine' if n % 2 else 'cosine'}({last})")
    text = "\n  ".join((*parameters, *body))
    shapes = ", ".join("f32[4,4]" for _ in ends)
    return f"""HloModule m

ENTRY main {{
  {text}
  ROOT r = ({shapes}) tuple({", ".join(ends)})
}}
"""


def test_turns_of_several_loops_are_told_without_lines() -> None:
    (first, *_) = explain_modules(read_module(tasks(5, 6)), read_module(tasks(3, 4))).causes
    assert first.proved
    assert str(first.in_short).startswith("A loop has other turns: dot")
    assert str(first.in_short).endswith("are repeated more often in A")
    assert "select with torch.where" in str(first.fix_in_short)


def test_a_layer_with_a_weight_of_its_own_is_no_turn() -> None:
    found = told(tasks(5, 6), tasks(6, 6, extra="own"))
    assert not any("turns" in one for one in found)


def forecast(turns: int, *, products: int = 4) -> str:
    """A model of some products that is applied to its own result, without lines."""
    body, value = [], "x"
    for turn in range(turns):
        for k in range(products):
            at = f"{turn}_{k}"
            body.append(f"d{at} = f32[4,4] dot({value}, w{k}), {AXES}")
            body.append(f"t{at} = f32[4,4] tanh(d{at})")
            value = f"t{at}"
    inputs = [f"w{k} = f32[4,4] parameter({k + 1})" for k in range(products)]
    text = "\n  ".join([*inputs, *body])
    last = f"ROOT r = f32[4,4] exponential({value})"
    return f"HloModule m\n\nENTRY main {{\n  x = f32[4,4] parameter(0)\n  {text}\n  {last}\n}}\n"


def test_a_model_that_runs_once_more_is_told_by_its_products() -> None:
    (said,) = told(forecast(1), forecast(2))
    assert (
        said == "The model, or a part of it, runs once more in B, with dot and 3 more instructions"
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (forecast(1, products=2), forecast(2, products=2)),  # one function's few products
        (forecast(1, products=4), forecast(1, products=8)),  # with weights of their own
    ],
)
def test_few_products_and_others_weights_are_no_model_once_more(a: str, b: str) -> None:
    assert not any("once more" in one for one in told(a, b))
