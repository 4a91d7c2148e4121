"""Another label that a loss ignores, as torch_xla lowers it, is one cause with a name."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def loss(label: int, prefix: str = "", *, is_class: bool | None = None) -> str:
    """Ones at the labels that count, of five classes; the ignored one is taken out if a class."""
    taken = (
        f"""  absent = s32[] constant(-1)
  absents = s32[1,5] broadcast(absent), dimensions={{}}
  gone = s32[] constant({label})
  gones = s32[1,5] broadcast(gone), dimensions={{}}
  choice = pred[1,5] compare(all, gones), direction=EQ
  some = s32[1,5] select(choice, absents, all)
"""
        if (0 <= label < 5 if is_class is None else is_class)
        else ""
    )
    known = "some" if taken else "all"
    text = f"""  all = s32[1,5] iota(), iota_dimension=1
{taken}  flat = s32[5] reshape({known})
  classes = s32[8,5] broadcast(flat), dimensions={{1}}
  wide = s32[8,5] broadcast(y), dimensions={{0}}
  hit = pred[8,5] compare(wide, classes), direction=EQ
  ignored = s32[] constant({label})
  every = s32[8] broadcast(ignored), dimensions={{}}
  counts = pred[8] compare(y, every), direction=NE
  mask = pred[8,5] broadcast(counts), dimensions={{0}}
  both = pred[8,5] and(hit, mask)
  one = f32[8,5] select(both, x, w)
"""
    for name in ("absents", "absent", "gones", "gone", "choice", "some", "all", "flat", "classes",
                 "wide", "hit", "ignored", "every", "counts", "mask", "both", "one"):  # fmt: skip
        for after in " ,)":
            text = text.replace(f" {name}{after}", f" {prefix}{name}{after}").replace(
                f"({name}{after}", f"({prefix}{name}{after}"
            )
    return text


def step(*losses: str, root: str = "ROOT r = f32[8,5] multiply(one, d_one)") -> str:
    head = "  x = f32[8,5] parameter(0)\n  w = f32[8,5] parameter(1)\n  y = s32[8] parameter(2)\n"
    return f"HloModule step\n\nENTRY main {{\n{head}{''.join(losses)}  {root}\n}}\n"


def told(a: str, b: str) -> list[str]:
    explanation = explain_modules(read_module(a), read_module(b))
    assert explanation.proved
    return [str(cause.in_short) for cause in explanation.causes]


@pytest.mark.parametrize(("old", "new"), [(-100, 0), (0, -100), (1, 3), (-100, -1), (-1, 255)])
def test_another_ignored_label_is_one_cause(old: int, new: int) -> None:
    a, b = (step(loss(label), loss(label, "d_")) for label in (old, new))
    words = f"the label that the loss ignores (ignore_index): {old} became {new}"
    assert told(a, b) == [words]


def test_a_class_that_is_taken_out_alone_is_no_ignored_label() -> None:
    plain = step(loss(-100), loss(-100, "d_"))
    taken = step(loss(-100), loss(-100, "d_", is_class=True))
    assert not any(words.startswith("the label") for words in told(plain, taken))


def test_another_class_is_no_ignored_label() -> None:
    root = "ROOT r = f32[8,5] negate(one)"
    one, other = (
        step(loss(n), root=root).replace(f"gone = s32[] constant({n})", "gone = s32[] constant(4)")
        for n in (1, 2)
    )
    assert told(one, other)[0].startswith(NUMBER)


NUMBER = "a number baked into the graph"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("direction=NE", "direction=GT"),
        ("classes = s32[8,5] broadcast(flat), dimensions={1}",
         "turned = s32[5] negate(flat)\n  classes = s32[8,5] broadcast(turned), dimensions={1}"),
        ("compare(y, every)", "compare(z, every)"),
    ],
)  # fmt: skip
def test_what_is_no_mask_of_labels_stays_a_number(old: str, new: str) -> None:
    root = "ROOT r = f32[8,5] negate(one)"
    texts = [step("  z = s32[8] negate(y)\n", loss(n), root=root) for n in (-100, -7)]
    (short,) = told(*(text.replace(old, new) for text in texts))
    assert short.startswith(NUMBER)
