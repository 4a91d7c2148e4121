"""What is recorded of operators: reads and writes against what they really touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from streams.oracle import bytes_of
from streams.record.fake import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch")
F = torch.nn.functional


def _tensors() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator)

    return {
        "a": some(4, 6), "b": some(4, 6), "c": some(6, 4), "v": some(6), "n": some(6).abs() + 1,
        "i": torch.tensor([2, 0, 3]), "img": some(2, 6, 5, 5), "w": some(3, 6, 3, 3),
        "m": some(6), "p": some(6).abs() + 1, "mask": some(4, 6) > 0, "big": some(8, 8),
    }  # fmt: skip


PROGRAMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "add": lambda t: t["a"] + t["b"],
    "add_": lambda t: t["a"].add_(t["b"]),
    "addmm": lambda t: torch.addmm(t["big"][:4, :4], t["a"], t["c"]),
    "mm of a view": lambda t: t["a"].t() @ t["c"].t(),
    "out=": lambda t: torch.mul(t["a"], t["b"], out=t["big"][:4, :6]),
    "column": lambda t: t["a"][:, 2:4].mul_(2),
    "fill_": lambda t: t["a"].fill_(3.0),
    "copy_": lambda t: t["a"].copy_(t["b"]),
    "copy_ expanded": lambda t: t["a"].copy_(t["v"]),
    "zeros_like": lambda t: torch.zeros_like(t["a"]),
    "new_full": lambda t: t["a"].new_full((3,), 2.0),
    "clone": lambda t: t["a"].clone(),
    "sum": lambda t: t["a"].sum(0),
    "softmax": lambda t: t["a"].softmax(-1),
    "layer_norm": lambda t: F.layer_norm(t["a"], (6,), t["v"], t["n"]),
    "batch_norm training": lambda t: F.batch_norm(
        t["img"], t["m"], t["p"], t["v"], t["n"], training=True
    ),
    "batch_norm eval": lambda t: F.batch_norm(t["img"], t["m"], t["p"], t["v"], t["n"]),
    "conv": lambda t: F.conv2d(t["img"], t["w"]),
    "index": lambda t: t["a"][t["i"]],
    "index_put_": lambda t: t["a"].index_put_((t["i"],), t["b"][:3]),
    "index_add_": lambda t: t["a"].index_add_(0, t["i"], t["b"][:3]),
    "masked_fill_": lambda t: t["a"].masked_fill_(t["mask"], 0.0),
    "embedding": lambda t: F.embedding(t["i"], t["a"]),
    "gather": lambda t: t["a"].gather(0, t["i"].view(1, 3)),
    "scatter_": lambda t: t["a"].scatter_(0, t["i"].view(1, 3), 9.0),
    "cat": lambda t: torch.cat([t["a"], t["b"][:2]]),
    "stack": lambda t: torch.stack([t["v"], t["n"]]),
    "split": lambda t: [piece.clone() for piece in t["a"].split(2, 1)],
    "unsafe_split": lambda t: torch.unsafe_split(t["a"], 2, 1),
    "transpose_": lambda t: t["a"].t_(),
    "where": lambda t: torch.where(t["mask"], t["a"], t["b"]),
    "foreach_add_": lambda t: torch._foreach_add_([t["a"], t["v"]], [t["b"], t["n"]]),
    "foreach_mul": lambda t: torch._foreach_mul([t["a"], t["v"]], 2.0),
    "foreach_copy_": lambda t: torch._foreach_copy_([t["a"]], [t["b"]]),
    "fused adam": lambda t: torch._fused_adamw_(
        [t["a"]], [t["b"]], [torch.zeros(4, 6)], [torch.zeros(4, 6)], [], [torch.tensor(1.0)],
        lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
    ),
    "to double": lambda t: t["a"].double(),
    "bool of one": lambda t: bool((t["v"][0] > 0).item()),
    "nonzero": lambda t: t["mask"].nonzero(),
    "sort": lambda t: t["a"].sort(1),
    "cumsum": lambda t: t["a"].cumsum(1),
    "roll": lambda t: t["a"].roll(1, 0),
    "tril_": lambda t: t["big"].tril_(),
    "uniform_": lambda t: t["a"].uniform_(),
    "as_strided": lambda t: t["big"].as_strided((3, 3), (9, 1), 2).mul_(2.0),
    "dropout": lambda t: F.dropout(t["a"], 0.5, training=True),
    "max pool": lambda t: F.max_pool2d(t["img"], 2),
    "interpolate": lambda t: F.interpolate(t["img"], scale_factor=2),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t["a"], t["c"]),
    "chunk in place": lambda t: [piece.add_(1) for piece in t["big"].chunk(3, 1)],
    "swap": lambda t: t["a"].set_(t["b"].clone()),
}  # fmt: skip


CHANGING = {
    "out=", "column", "copy_ expanded", "fused adam", "batch_norm training", "as_strided",
    "chunk in place",
}  # fmt: skip


def storage_bytes(tensors: dict[str, Any]) -> dict[int, int]:
    """Address to value of every byte of the tensors' storages."""
    found: dict[int, int] = {}
    for one in tensors.values():
        storage = one.untyped_storage()
        found |= dict(enumerate(storage.tolist(), storage.data_ptr()))
    return found


def ranges(records: list[dict[str, Any]], field: str) -> set[int]:
    exact: set[int] = set()
    for record in records:
        for item in record.get(field, ()):
            is_box = len(item) == 6 and item[4] == -1
            exact |= set(range(item[1], item[1] + item[2])) if is_box else bytes_of(item)
    return exact


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_changes_was_recorded_as_written(name: str, tmp_path: Path) -> None:
    """No byte of an input changes that is in no ``w``."""
    tensors = _tensors()
    kept = dict(tensors)
    if name == "swap":
        kept.pop("a")
    before = storage_bytes(kept)
    with Recorded(tmp_path / "log") as recorded:
        PROGRAMS[name](tensors)
    changed = {at for at, value in storage_bytes(kept).items() if value != before[at]}
    assert changed <= ranges(recorded.of("op"), "w")
    in_place = name.endswith("_") and name != "transpose_"
    assert bool(changed) == (in_place or name in CHANGING), changed


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("uniform_", "dropout")])
def test_what_was_not_recorded_as_read_does_not_matter(name: str, tmp_path: Path) -> None:
    """Other values in every byte outside the ``r`` and ``w``: the same result."""
    plain = _flat(PROGRAMS[name](_tensors()))
    tensors = _tensors()
    with Recorded(tmp_path / "first") as recorded:
        PROGRAMS[name](tensors)
    used = ranges(recorded.of("op"), "r") | ranges(recorded.of("op"), "w")
    again = _tensors()
    for key, one in again.items():
        first = tensors[key] if name != "swap" or key != "a" else None
        if first is None or first.dtype not in (torch.float32,):
            continue
        flat = one.view(-1)
        base = first.untyped_storage().data_ptr()
        for k in range(flat.numel()):
            if not used & set(range(base + 4 * k, base + 4 * k + 4)):
                flat[k] = -77.0
    # What an in-place operator returns holds unread elements too: only read ones are compared.
    result = _flat(PROGRAMS[name](again))
    assert len(result) == len(plain)
    for x, y in zip(plain, result, strict=True):
        same = (x == y) | (y == -77.0)
        assert bool(same.all()), name


@pytest.mark.parametrize("name", ["add", "softmax", "cat", "split", "foreach_mul", "sort", "conv"])
def test_fresh_results_are_recorded_as_written(name: str, tmp_path: Path) -> None:
    with Recorded(tmp_path / "log") as recorded:
        result = PROGRAMS[name](_tensors())
    made = ranges(recorded.of("out"), "w")
    for one in result if isinstance(result, (list, tuple)) else [result]:
        start = one.data_ptr()
        assert set(range(start, start + one.numel() * one.element_size())) <= made


@pytest.mark.parametrize("name", ["transpose_", "unsafe_split"])
def test_views_write_nothing(name: str, tmp_path: Path) -> None:
    tensors = _tensors()
    with Recorded(tmp_path / "log") as recorded:
        PROGRAMS[name](tensors)
    assert recorded.of("out") == []
    assert ranges(recorded.of("op"), "w") == set()


def test_a_norm_writes_its_running_values_while_training_only(tmp_path: Path) -> None:
    for name, expected in (("batch_norm training", 2), ("batch_norm eval", 0)):
        tensors = _tensors()
        with Recorded(tmp_path / name) as recorded:
            PROGRAMS[name](tensors)
        assert sum(len(record["w"]) for record in recorded.of("op")) == expected


def test_an_optimizer_reads_gradients_that_it_does_not_unscale(tmp_path: Path) -> None:
    tensors = _tensors()
    with Recorded(tmp_path / "log") as recorded:
        PROGRAMS["fused adam"](tensors)
    (record,) = [one for one in recorded.of("op") if "fused" in one["op"]]
    start = tensors["b"].data_ptr()
    assert start in [item[1] for item in record["r"]]
    assert start not in [item[1] for item in record["w"]]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, torch.Tensor):
        return [result.contiguous()]
    if isinstance(result, (list, tuple)):
        return [one for item in result for one in _flat(item)]
    return []
