"""Numbers that torch_xla would bake in at some values, sent with the program's own statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.facts.program.typed_scalars import typed_scalar
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

MULTIPLIED = frozenset({"multiply", "dot", "add"})
_REST = ("use(", "print(")


def typed(text: str, opcodes: frozenset[str] = MULTIPLIED) -> str:
    """What is typed for the last statement but for a loop's rest, with these operations traced."""
    lines = dict(enumerate(text.split("\n"), 5))
    used = [k for k, line in lines.items() if not line.lstrip().startswith(_REST)]
    found = typed_scalar(lines, used[-1], {used[-1]: opcodes}, frozenset({"multiply"}))
    return "\n".join(found.code) if found else ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "y = model(x) * (1 - step / 8)",
            'y = model(x) * (torch.tensor([1 - step / 8]).to("xla")[0])',
        ),
        (
            "for step in range(8):\n    y = net(x) * step",
            'y = net(x) * torch.tensor([step]).to("xla")[0]',
        ),
        (
            "for k, (x, y) in enumerate(loader):\n    loss *= 1.0 if k else 0.0",
            'loss *= torch.tensor([1.0 if k else 0.0]).to("xla")[0]',
        ),
        (
            "w = max(0.0, 0.6 - 0.2 * step)\nupdate(a.mean() * 2 + b.mean() * w)",
            'update(a.mean() * 2 + b.mean() * torch.tensor([w]).to("xla")[0])',
        ),
        (
            "w = 1 - step / 8\nfor x in parts:\n    y = f(x) * w\n    use(y, w)\nprint(y)",
            'y = f(x) * torch.tensor([w]).to("xla")[0]',
        ),
        (
            "w = 1 - step / 8\nloss = ce + kl * w",
            'loss = ce + kl * torch.tensor([w]).to("xla")[0]',
        ),
        (
            "s = torch.tensor(1 - step / 8).to(device)",
            "s = torch.tensor([1 - step / 8]).to(device)[0]",
        ),
        (
            "y = x * torch.tensor(1 - step / 8, device=dev)",
            "y = x * torch.tensor([1 - step / 8], device=dev)[0]",
        ),
    ],
)
def test_a_number_is_sent_as_one_element(text: str, code: str):
    assert typed(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "y = x * w",  # either may be the tensor
        "w = net.scale\ny = x * w",
        "w = schedule(step)\ny = x * w",  # may give a tensor, through which gradients go
        "w = 0.5\ndef f(x, w):\n    return x * w",
        "if warm:\n    w = 0.5\ny = x * w",
        "for x, w in loader:\n    y = x * w",
        "y = x * 2",
        "y = x[step * 2] * w",
        "loss = 0.0\nfor k in names:\n    loss = loss + scale[k] * (value * present[k])\nprint()",
        "loss = 0.0\nfor k in names:\n    loss += f(k) * present[k]\nprint()",
        "w = 1.0\nfor x in parts:\n    y = f(x) * w\n    use(w := y)\nprint()",  # a tensor next
        "w = 1 - step / 8\nfor x in parts:\n    y = f(x) * w",  # what follows is not known
        "w = 1 - step / 8\ny = f(x) * w + g(x) * present[k]",  # or the other
        "w = 1 - step / 8\ny = f(x) * w * self.present",
        "w = 1 - step / 8\ny = f(x) * w + a * b",
        "y = x.clamp(0, 1 - step / 8) / (1 - step / 8)",  # that is not what takes the number
        "s = torch.tensor([1 - step / 8]).to(device)[0]",
        "s = torch.tensor(1 - step / 8)",  # where it is sent is not seen
        "s = torch.tensor(values).to(device)",
        "y = x *",
    ],
)
def test_what_may_be_no_number_stays(text: str):
    assert typed(text) == ""


def test_an_operator_that_was_traced_took_a_tensor():
    assert typed("y = model(x) * (w - 1)") != ""
    assert typed("y = model(x) * (w - 1)", frozenset({"multiply", "subtract"})) == ""


PROGRAM = """
import torch, torch_xla
torch.manual_seed(0)
weight = torch.randn(4, 8, device="xla")
dev = torch_xla.device()
torch_xla.sync()
for step in range(12):
    x = torch.rand(8, 4).to(dev) + 0.1
    LINE
    loss.sum().backward() if loss.requires_grad else loss.sum()
    torch_xla.sync()
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("loss = (x @ weight) * (1 - 0.5 * (step % 5))", "special-scalar"),
        ("loss = (x @ weight) * torch.tensor(1 - 0.5 * (step % 5)).to(dev)", "special-scalar"),
        ("loss = x ** (0.5 * (step % 4))", "constant-value"),
    ],
)
def test_what_is_typed_ends_the_compiles(line: str, kind: str, run_program, tmp_path: Path):
    """Through 0, 1 and -1, of which torch_xla makes constants."""
    before = explained(run_program, tmp_path / "before", line)
    assert before.has_problem
    assert kind in {group.kind.id for group in before.groups}
    code = str(before.verdict.fix).partition(":\n")[2].strip()
    assert code.startswith("loss = ")
    after = explained(run_program, tmp_path / "after", code)
    assert not after.has_problem, str(after.verdict)


def explained(run_program, folder: Path, line: str):
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(PROGRAM.replace("LINE", line))
    run_program(program, XLAGRAPH="1", XLAGRAPH_DIR=str(folder / "run"))
    return explain_run(read_run(folder / "run"))
