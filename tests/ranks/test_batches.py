"""What is written so that all ranks take as many turns of a loop."""

from __future__ import annotations

import pytest

from xlagraph.message import words
from xlagraph.ranks.batches import as_many_turns


@pytest.mark.parametrize(
    ("head", "above", "loop"),
    [
        ("for x, y in loader:", "len(loader)", "for x, y in itertools.islice(loader, n):"),
        (
            "    for i, batch in enumerate(self.loader):",
            "len(self.loader)",
            "for i, batch in enumerate(itertools.islice(self.loader, n)):",
        ),
        ("for step in range(STEPS - (RANK == 7)):", "STEPS - (RANK == 7)", "for step in range(n):"),
        ("for b in loaders['a']: train(b)", "len(loaders['a'])", None),
        ("for b in tqdm(\n    loader,\n):", "len(tqdm(loader))", None),
        ("for b in range(3, 9):", "", None),
        ("for b in zip(a, b):", "", None),
        ("for b in (one for one in many):", "", None),
        ("for b in enumerate(loader, 1):", "", None),
        ("while True:", "", None),
        ("for b in", "", None),
        ("step()", "", None),
        (f"for b in {'x' * 90}:", "", None),
    ],
)
def test_a_loop_over_the_fewest(head: str, above: str, loop: str | None) -> None:
    lines = dict(enumerate(head.splitlines(), 4))
    said = words(as_many_turns(lines, 4))
    assert f'\nn = xm.mesh_reduce("n", {above}, min)\nfor ' in said or not above
    code, _, imports = said.partition("\nand import:\n")
    needed = ["import torch_xla.core.xla_model as xm", "import itertools"]
    assert imports.split("\n") == needed[: 2 if "islice" in said else 1] or not above
    assert bool(said) == bool(above)
    assert loop is None or code.endswith(loop)
    assert words(as_many_turns(lines, 50)) == ""


def test_the_loops_run_as_often_on_every_rank() -> None:
    """Three ranks with other numbers of batches, and a reduction that knows them all."""
    batches = {0: 5, 1: 3, 2: 4}

    class Xm:
        @staticmethod
        def mesh_reduce(tag: str, data: int, reduce: object) -> int:  # noqa: ARG004
            assert reduce is min
            return min(batches.values())

    for head in ("for b in loader:", "for k, b in enumerate(loader):", "for k in range(size):"):
        known = {-1: "import itertools", 0: "import torch_xla.core.xla_model as xm", 1: head}
        _, above, loop = words(as_many_turns(known, 1)).split("\n")
        turns = []
        for size in batches.values():
            names = {"xm": Xm, "loader": list(range(size)), "size": size, "turns": []}
            exec(f"import itertools\n{above}\n{loop}\n turns.append(1)", names)
            turns.append(len(names["turns"]))
        assert turns == [3, 3, 3]
