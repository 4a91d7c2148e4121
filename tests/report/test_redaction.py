"""With ``--redact`` nothing that tells about the program is on the page."""

from __future__ import annotations

import re
import shutil
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_modules import RUNS
from report_inputs import explained, hostile_pair, hostile_run
from report_secrets import SECRET, all_that_is_said, disguise_run, disguised

from xlagraph.cause.model import Context, MissingGradient, UnfinishedBackward
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.hlo.containers import find_entry
from xlagraph.message import SourceLine
from xlagraph.report.build import pair_report, run_report
from xlagraph.report.model import ReportOptions
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.steady import comparisons
from xlagraph.tensors import Holder, Role, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xlagraph.graph import Module

FIXTURES = RUNS.parent
FILES = (FIXTURES / "module_pairs").glob("*.a.hlo.gz")
PAIRS = [p.name.split(".a.")[0] for p in sorted(FILES, key=lambda p: (p.stat().st_size, p.name))]
"""The smallest first, as hypothesis wants its simplest case."""
REDACT = ReportOptions(redact=True)
JUNK = "az09 ,=:;->(){}[]<>'/\\\"%._\n|"
"""What a quoted text may hold; quotes and backslashes are escaped as XLA does."""


@cache
def text_of(name: str, side: str) -> str:
    return find_entry(str(FIXTURES / "module_pairs" / f"{name}.{side}.hlo.gz")).source().text


class Secrets:
    """Gives each name a secret of its own, fit to be a name in HLO."""

    def __init__(self, chance: Random):
        self.chance = chance
        self.known: dict[str, str] = {}

    def name(self, name: str) -> str:
        tail = "".join(self.chance.choices("abz019_.-", k=3))
        return self.known.setdefault(name, f"{SECRET}{tail}x.{len(self.known)}")

    def quoted(self, piece: str) -> str:
        """A secret in place of what is quoted; a name where a name was."""
        if not piece or re.fullmatch(r"[\w.\-]+", piece):
            return self.name(piece) if piece else piece
        junk = "".join(self.chance.choices(JUNK, k=self.chance.randrange(30)))
        inside = f"{SECRET} {junk} {SECRET}"
        return inside.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def context(secret: Callable[[str], str], module: Module) -> Context:
    """A capture that knows the name of everything."""
    inputs, outputs = len(module.entry_computation.parameters), range(len(module.outputs))
    file = f"/{secret('folder')}/{secret('file')}.py"

    def tensor(k: int, role: Role) -> Tensor:
        owner, name = secret(f"module {k % 3}"), secret(f"tensor {k}")
        return Tensor(owner, name, role, secret("Optimizer"), secret("key"), shard=k % 2 == 0)

    return Context(
        parameters={k: tensor(k, Role.STATE) for k in range(inputs)},
        outputs={k: tensor(k, Role.WAITING) for k in outputs},
        created={k: SourceLine(file, k) for k in outputs},
        holders={
            k: (Holder(secret("Box"), secret(f"box {k}"), secret("module")),) for k in outputs
        },
        call_site=SourceLine(file, 7),
        waiting=(tensor(1, Role.BUCKET), tensor(2, Role.BUCKET)),
        unfinished=(unfinished(secret, SourceLine(file, 8)),),
        key={"graph_hash": secret("hash")},
    )


def unfinished(secret: Callable[[str], str], line: SourceLine) -> UnfinishedBackward:
    """An FSDP module that waits for the gradient of one parameter."""
    parameter = Tensor(secret("module 1"), secret("tensor 1"), Role.PARAMETER)
    missing = MissingGradient(parameter, "f32[4]", secret("Class"), line)
    return UnfinishedBackward(secret("wrapped"), 3, 1, (missing,), line)


def test_no_secret_of_a_bucket_is_told() -> None:
    secrets = Secrets(Random(0))
    run = explained("carry")
    diff = comparisons(run)[-1].explain()[0].diff
    a, b = diff.a, diff.b
    known = context(secrets.name, a), context(secrets.name, b)
    explanation = explain_modules(a, b, *known)
    assert "got no gradient" in all_that_is_said(pair_report(explanation, ("a", "b"), known))
    said = all_that_is_said(pair_report(explanation, ("a", "b"), known, REDACT))
    assert "got no gradient" in said
    assert SECRET not in said, said[max(0, said.find(SECRET) - 200) : said.find(SECRET) + 80]


@given(st.sampled_from(PAIRS), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_secret_of_two_modules_is_told(name: str, chance: Random, with_context: bool) -> None:
    secrets = Secrets(chance)
    texts = [disguised(text_of(name, side), secrets.name, secrets.quoted) for side in "ab"]
    a, b = (read_module(text, f"{SECRET}{k}.hlo") for k, text in enumerate(texts))
    known = (Context(), Context())
    if with_context:
        known = context(secrets.name, a), context(secrets.name, b)
    explanation = explain_modules(a, b, *known)
    specs = (f"/{SECRET}/a.hlo", f"/{SECRET}/b.hlo")
    plain = all_that_is_said(pair_report(explanation, specs, known))
    assert SECRET in plain, "the disguise is on the page that is not redacted"
    said = all_that_is_said(pair_report(explanation, specs, known, REDACT))
    assert SECRET not in said, said[max(0, said.find(SECRET) - 200) : said.find(SECRET) + 80]


@pytest.mark.parametrize("name", ["carry", "fixed"])
def test_no_secret_of_a_run_is_told(name: str, tmp_path: Path) -> None:
    folder = tmp_path / f"{SECRET}-run"
    shutil.copytree(RUNS / name, folder)
    disguise_run(folder, lambda word: SECRET + word)
    run = explain_run(read_run(folder))
    assert SECRET in all_that_is_said(run_report(run))
    said = all_that_is_said(run_report(run, REDACT))
    assert SECRET not in said, said[max(0, said.find(SECRET) - 200) : said.find(SECRET) + 80]
    assert [g.kind for g in run.groups] == [g.kind for g in explained(name).groups]


def test_a_constant_name_in_a_quoted_option_is_not_told() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="f", backend_config="OPTION"
}
"""
    values = [f"{'long, ' * 12}project_manhattan = 1, and = {end}" for end in ("more", "2")]
    a, b = (read_module(text.replace("OPTION", value), "m.hlo") for value in values)
    report = pair_report(explain_modules(a, b), ("a", "b"), options=REDACT)
    assert "manhattan" not in all_that_is_said(report)


def test_redaction_of_hostile_metadata() -> None:
    said = all_that_is_said(pair_report(hostile_pair(), ("a", "b"), options=REDACT))
    assert "owned" not in said
    assert "xxxxxxxx" not in said


def test_redaction_of_hostile_records() -> None:
    assert "onerror" not in all_that_is_said(run_report(hostile_run(), REDACT))
