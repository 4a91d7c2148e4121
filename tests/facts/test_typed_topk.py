"""A topk whose k changes, written with one k_max from the program's own statements."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.typed_topk import typed_topk


def typed(text: str):
    """What is typed for the last line of a text; the file's other lines are not known."""
    lines = dict(enumerate(text.strip("\n").split("\n"), 5))
    return typed_topk(lines, max(lines))


MINED = """
    def mine(self, loss, positive):
        count = self.ratio * int(positive.sum().item())
        count = max(1, min(count, loss.numel()))
        hard, _ = torch.topk(loss.flatten(), count)
"""


def test_what_makes_k_is_found_above_and_kept_on_the_device():
    found = typed(MINED)
    assert found is not None
    assert (found.k, found.makers, found.first, found.last) == ("count", (6, 7), 6, 8)
    assert found.code == (
        "count = self.ratio * positive.sum().long()",
        "count = count.clamp(max=loss.numel()).clamp(min=1)",
        "whole = loss.flatten()",
        "k_max = whole.shape[-1]",
        "hard, _ = torch.topk(whole, k_max)",
        "hard = torch.where(torch.arange(k_max, device=hard.device) < count, hard, 0)",
        "# averages: hard.sum(-1) / count, not hard.mean(-1)",
    )


BETWEEN = """
    def forward(self, logits, labels):
        positive = labels > 0
        count = max(1, int(positive.sum()))
        cost = cross_entropy(logits, labels)
        pos = (
            positive.float()
        )

        number = self.ratio * count
        hard, _ = cost.topk(number)
"""


def test_lines_between_what_makes_k_and_the_call_stay():
    found = typed(BETWEEN)
    assert found is not None
    assert (found.makers, found.first, found.last) == ((7, 13), 7, 14)
    assert found.code[:7] == (
        "count = positive.sum().long().clamp(min=1)",
        "cost = cross_entropy(logits, labels)",
        "pos = (",
        "    positive.float()",
        ")",
        "number = self.ratio * count",
        "k_max = cost.shape[-1]",
    )


K_MAX = "k_max = x.shape[-1]"


@pytest.mark.parametrize(
    ("text", "makers", "code"),
    [
        ("n = mask.sum().cpu().item()\nv = x.topk(n).values", (5,), "n = mask.sum()"),
        ("n = int(mask.sum())\nk = n // 2\nv, i = x.topk(k)", (5, 6), "n = mask.sum().long()"),
        ("v, i = x.topk(int(mask.sum()))", (), K_MAX),
        ("k = 1 + step % 3\nv, i = x.topk(k)", (5,), K_MAX),
        ("k = n.item()\nout = use(x.topk(k))", (5,), ""),  # what holds the values is not known
        ("k = n.item()\nv, i = x.topk(k, 0)", (5,), ""),  # not the last dimension
        ("k = n.item()\n_, i = x.topk(k)", (5,), ""),
        ("k = ids.tolist()[0]\nv, i = x.topk(k)", (5,), K_MAX),
        ("if more:\n    k = n.item()\nv, i = x.topk(k)", (6,), ""),  # in a branch
        ("k = int(table[n.item()])\nv, i = x.topk(k)", (5,), ""),
        ("v, i = torch.topk(x, k=k_of(step))", (), K_MAX),
    ],
)
def test_forms(text: str, makers: tuple[int, ...], code: str):
    found = typed(text)
    assert found is not None
    assert found.makers == makers
    assert (found.code or ("",))[0] == code


@pytest.mark.parametrize(
    ("call", "above", "written"),
    [
        ("x.topk(k)", ["k_max = x.shape[-1]"], "x.topk(k_max)"),
        ("torch.topk(x, k=k)", ["k_max = x.shape[-1]"], "torch.topk(x, k=k_max)"),
        ("x.topk(k, dim=1)", ["k_max = x.shape[-1]"], "x.topk(k_max, dim=1)"),
        ("x.topk(k, -1)", ["k_max = x.shape[-1]"], "x.topk(k_max, -1)"),
        ("(x + b).topk(k)", ["whole = x + b", "k_max = whole.shape[-1]"], "(whole).topk(k_max)"),
        (
            "torch.topk(net(x), k)",
            ["whole = net(x)", "k_max = whole.shape[-1]"],
            "torch.topk(whole, k_max)",
        ),
        ("x.topk(k, 0)", [], ""),  # along another dimension
        ("x.topk(k, dim=d)", [], ""),
        ("x.topk(k, -1, False)", ["k_max = x.shape[-1]"], "x.topk(k_max, -1, False)"),
        ("x.topk(k, largest=low)", ["k_max = x.shape[-1]"], "x.topk(k_max, largest=low)"),
        ("x.topk(k, sorted=False)", [], ""),  # which are the first k is not known
        ("x.topk(k, -1, True, False)", [], ""),
    ],
)
def test_k_max_has_its_value_above_the_call(call: str, above: list[str], written: str):
    found = typed_topk({5: f"v, i = {call}"}, 5, rank=2)
    assert found is not None
    *given, last = found.code[:-3] or ("",)  # behind it k is sent, and the mask taken
    assert last == (f"v, i = {written}" if written else "")
    assert given == above


def test_which_dimension_is_the_last_is_not_known_without_a_rank():
    found = typed_topk({5: "v, i = x.topk(k, dim=1)"}, 5)
    assert found is not None
    assert found.code == ()


def test_lines_that_make_a_number_of_python_stay():
    found = typed("k = 1 + step % 3\nv, i = x.topk(k)")
    assert found is not None
    assert (found.first, found.last, found.makers) == (6, 6, (5,))


def test_a_number_of_python_is_sent():
    found = typed("k = 1 + step % 3\nv, i = x.topk(k)")
    assert found is not None
    assert found.code[-3:] == (
        "wanted = torch.tensor([k]).to(v.device)",
        "v = torch.where(torch.arange(k_max, device=v.device) < wanted, v, 0)",
        "# averages: v.sum(-1) / wanted[0], not v.mean(-1)",
    )


@pytest.mark.parametrize(
    ("below", "rank", "said"),
    [
        (["return v.mean()"], 1, ["# line 6: v.sum() / wanted[0], not v.mean()"]),
        (["return v.mean()"], 2, ["# line 6: (v.sum(-1) / wanted[0]).mean(), not v.mean()"]),
        (
            ["w = v * 2", "", "w = v.mean(dim=1) + 1"],
            2,
            ["# line 8: v.sum(dim=1) / wanted[0], not"],
        ),
        (
            ["w = torch.mean(", "    v", ")"],
            1,
            ["# line 6: v.sum() / wanted[0], not torch.mean(v)"],
        ),
        (["if more:", "    w = v.mean()"], 1, ["# line 7: v.sum() / wanted[0], not v.mean()"]),
        (["w = v.mean()", "z = 2 / v.mean()"], 1, ["# line 6: v.sum()", "# line 7: v.sum()"]),
        # none that the mask changes
        (["return x.mean()"], 1, ["# averages: v.sum() / wanted[0], not v.mean()"]),
        (["return v.mean(0)"], 2, ["# averages: v.sum(-1) / wanted[0]"]),
        (["v = w", "return v.mean()"], 1, ["# averages: "]),
        (["return v.sum() / k"], 1, ["# averages: "]),
        (["def other(v):", "    return v.mean()"], 1, ["# averages: "]),
    ],
)
def test_means_below_that_would_count_what_is_masked_are_named(
    below: list[str], rank: int, said: list[str]
):
    found = typed_topk(dict(enumerate(["v, i = x.topk(k)", *below], 5)), 5, rank)
    assert found is not None
    comments = [line for line in found.code if line.startswith("#")]
    assert len(comments) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(comments, said, strict=True))


@pytest.mark.parametrize(
    ("shape", "mean"), [((9,), "v.mean()"), ((4, 9), "v.mean()"), ((4, 9), "v.mean(1)")]
)
def test_what_the_comment_says_is_the_mean_of_before(shape: tuple[int, ...], mean: str):
    torch = pytest.importorskip("torch")
    found = typed_topk({5: "v, i = x.topk(k)", 6: f"w = {mean}"}, 5, len(shape))
    assert found is not None
    instead = found.code[-1].removeprefix("# line 6: ").split(", not ")[0]
    values = {"torch": torch, "x": torch.rand(shape), "k": 3}
    was, now = dict(values), dict(values)
    exec(f"v, i = x.topk(k)\nw = {mean}", was)
    exec("\n".join((*found.code, f"w = {instead}")), now)
    assert was["w"].shape == now["w"].shape
    assert torch.allclose(was["w"], now["w"])


@pytest.mark.parametrize("text", ["v, i = x.topk(5)", "v = x.sort()", "x.topk(", "k)", "x.topk()"])
def test_what_is_no_such_call(text: str):
    assert typed(text) is None


def test_another_function_and_lines_that_are_not_known_end_the_search():
    found = typed("    k = n.item()\ndef more(k):\n    v, i = x.topk(k)")
    assert found is not None
    assert found.makers == ()
    found = typed_topk({5: "k = n.item()", 7: "v, i = x.topk(k)"}, 7)
    assert found is not None
    assert found.makers == ()


def test_what_is_typed_computes_what_the_program_did():
    torch = pytest.importorskip("torch")
    found = typed(MINED.replace("self.ratio", "ratio"))
    assert found is not None
    before = "\n".join(line.strip() for line in MINED.strip("\n").split("\n")[1:])
    before = before.replace("self.ratio", "ratio")
    for ratio, kept in ((1, 3), (3, 2), (3, 0), (3, 9)):
        loss = torch.rand(9, generator=torch.Generator().manual_seed(kept))
        values = {"torch": torch, "loss": loss, "positive": torch.arange(9) < kept}
        values |= {"ratio": ratio}
        was, now = dict(values), dict(values)
        exec(before, was)
        exec("\n".join(found.code), now)
        assert torch.equal(was["hard"], now["hard"][: len(was["hard"])])
        assert not now["hard"][len(was["hard"]) :].any()
