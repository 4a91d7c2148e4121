"""Writes docs/causes from the rules: one page a kind, with the verdict of its first example.

``python docs/make_causes.py`` from the repository's root; a test compares the files with what
this would write.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from xlagraph.catalogue import by_section, kinds
from xlagraph.explain import explain_modules
from xlagraph.explain.registry import rules
from xlagraph.inputs import is_run, open_module
from xlagraph.ranks.explain import explain_ranks
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.streams.analyze import analyze
from xlagraph.streams.drift import drift_of
from xlagraph.streams.log import Log
from xlagraph.streams.text import print_analysis
from xlagraph.terminal.advice import Shown
from xlagraph.terminal.explanation import print_explanation
from xlagraph.terminal.ranks import print_ranks
from xlagraph.terminal.run import print_run
from xlagraph.terminal.style import HELD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.rule import Rule

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "causes"
STREAMS = ROOT / "fixtures" / "streams"
WIDTH = 96
INTRODUCTION = """\
# Causes

Why a graph is another one than before, what goes wrong between ranks, and which use of CUDA streams
is in no order. This folder is made from the rules
(`python docs/make_causes.py`); `xlagraph cause KIND` prints the same in a terminal. How a cause is
found and proved: [Architecture](../ARCHITECTURE.md#how-a-cause-is-found). How often the right one
is named: [accuracy](../accuracy.md).

**Share.** The part of the differing instructions that a cause accounts for. With several causes
the first one also has what none of them cites, when the proof holds.

**Source lines.** Graphs have them where they were captured by `XLAGRAPH=1`, or dumped with
`XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1`; only the innermost frame stands in a text, the whole stack in a
protobuf. A line of the program itself is preferred; a line inside PyTorch is marked "a library".
Without lines the causes are the same, named by tensors and shapes.

In the training scripts `model`, `optimizer`, `loss_fn` and `loader` stand for yours.
"""

ORDER = """\
## The order in which rules are asked

Each is asked about what those above it left open; where it has no kinds of its own, it finds causes
of other rules' kinds. dtype-stretch is a last resort: it is left out, and asked in a further search
where the others came to no proof. How to place a new one:
[Architecture](../ARCHITECTURE.md#how-to-add-a-rule).

| rule | its kinds | follows |
|---|---|---|"""


def pages() -> Mapping[str, str]:
    """The files of docs/causes by name."""
    found = {f"{kind.id}.md": page(kind) for kind in kinds().values()}
    return {"README.md": index(), **found}


def index() -> str:
    """The list of all kinds, and the order of the rules."""
    lines = [INTRODUCTION]
    for section, listed in by_section().items():
        lines += [f"## {section.value}", "", "| kind | |", "|---|---|"]
        lines += [f"| [`{kind.id}`]({kind.id}.md) | {kind.title} |" for kind in listed]
        lines.append("")
    return "\n".join([*lines, ORDER, *map(asked, rules())]) + "\n"


def asked(rule: Rule) -> str:
    """One rule: its file, its kinds, the rules that it has to follow."""
    file = rule.find.__module__.replace(".", "/") + ".py"
    listed = ", ".join(f"[`{kind.id}`]({kind.id}.md)" for kind in rule.kinds)
    followed = [other for other in rules() if other.name in rule.after or rule.name in other.before]
    names = ", ".join(other.name for other in followed)
    return f"| [{rule.name}](../../{file}) | {listed} | {names} |"


def page(kind: Kind) -> str:
    """One kind: meaning, a program before and after, evidence, fix, proof, a real verdict."""
    parts = [f"# {kind.id}", f"*{kind.title}.*", kind.meaning]
    for heading, program in zip(kind.headings, (kind.before, kind.after), strict=True):
        if program:
            parts += [heading, code(program, "python")]
    parts += [f"**Evidence.** {kind.evidence}", f"**Fix.** {kind.fix}", f"**Proof.** {kind.proof}"]
    if kind.examples:
        command, verdict = verdict_of(kind.examples[0])
        parts += ["## A real one", code(f"$ {command}\n{verdict}"), shown_by(kind)]
    return "\n\n".join(parts) + "\n"


def shown_by(kind: Kind) -> str:
    """The fixtures that show a kind, as links."""
    links = ", ".join(f"[{name}](../../{source_of(name)})" for name in kind.examples)
    return f"Shown by: {links}."


def source_of(name: str) -> str:
    """The program or script that an example comes from."""
    program = f"examples/scenarios/{name}.py"
    if (ROOT / program).exists():
        return program
    if name == "carry":
        return "examples/fsdp_bucket_carry.py"
    if (ROOT / "fixtures" / "ranks" / name).exists():
        return "examples/ranks.py"
    if (STREAMS / f"{name}.jsonl.zst").exists():
        return f"fixtures/streams/{name}.jsonl.zst"
    maker = name.removesuffix(".after")
    is_jax = f"def {maker}(" in (ROOT / "fixtures" / "make_jax_pairs.py").read_text()
    return f"fixtures/make_{'jax' if is_jax else 'torch'}_pairs.py"


def code(text: str, language: str = "") -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def verdict_of(example: str) -> tuple[str, str]:
    """The command for an example's fixture, and what it prints."""
    screen = Console(file=StringIO(), width=WIDTH, markup=False, highlight=False, emoji=False)
    log = STREAMS / f"{example}.jsonl.zst"
    if log.exists():
        opened = Log.open(str(log))
        print_analysis(screen, analyze(opened), drift_of(opened))
        return f"xlagraph streams {log.relative_to(ROOT)}", printed(screen)
    ranks = f"fixtures/ranks/{example}"
    if is_run(str(ROOT / ranks)):
        found = explain_ranks(explain_run(read_run(str(ROOT / ranks))))
        assert found
        print_ranks(screen, found, Shown())
        return f"xlagraph explain {ranks}", printed(screen)
    for folder in ("pairs", "runs"):
        path = f"fixtures/{folder}/{example}"
        if is_run(str(ROOT / path)):
            print_run(screen, explain_run(read_run(str(ROOT / path))))
            return f"xlagraph explain {path}", printed(screen)
    a, b = (f"fixtures/module_pairs/{example}.{side}.hlo.gz" for side in "ab")
    first, second = open_module(str(ROOT / a)), open_module(str(ROOT / b))
    print_explanation(screen, explain_modules(first.module, second.module), a, b, Shown())
    return f"xlagraph diff {a} {b}", printed(screen)


def printed(screen: Console) -> str:
    """What was printed, without spaces at the ends of lines."""
    assert isinstance(screen.file, StringIO)
    text = screen.file.getvalue().replace(HELD, " ")
    return "\n".join(line.rstrip() for line in text.splitlines())


def main() -> None:
    """Writes the files, and removes those of kinds that are gone."""
    PAGES.mkdir(exist_ok=True)
    made = pages()
    for file in PAGES.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (PAGES / name).write_text(text)


if __name__ == "__main__":
    main()
