"""Building reports: of a run, or of two modules; the costliest pairs fill the page first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from xlagraph.cause.model import Context
from xlagraph.message import duration, say
from xlagraph.report.model import ROWS_SHOWN, Fact, Lost, PairHead, Report, ReportOptions
from xlagraph.report.module_data import module_data
from xlagraph.report.pack import pack
from xlagraph.report.pair_page import pair_data
from xlagraph.report.ranks_panel import ranks_panel
from xlagraph.report.run_page import group_cards, run_data
from xlagraph.report.shown_pairs import ShownPairs
from xlagraph.report.timeline import timeline
from xlagraph.report.vocabulary import names_for
from xlagraph.report.wording import ShownPair, advice, compared, excerpt
from xlagraph.runs.verdict import own_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Explanation
    from xlagraph.cause.verdict import Verdict
    from xlagraph.message import Message
    from xlagraph.ranks.explain import RanksExplanation
    from xlagraph.report.names import Names
    from xlagraph.report.run_model import RunData, Timeline
    from xlagraph.run.reader import Run
    from xlagraph.runs.model import RunExplanation
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.two_runs import Comparison

MUCH = 1.0
"""Seconds lost from which on they are shown as an alarm."""
BYTES_A_COMPILE = 100
"""Of the size limit; so many rows the list of compiles may have."""


def pair_report(
    explanation: Explanation,
    specs: tuple[str, str],
    contexts: tuple[Context, Context] = (Context(), Context()),
    options: ReportOptions | None = None,
) -> Report:
    """The report of two modules that `specs` named on the command line."""
    options = options or ReportOptions()
    diff = explanation.diff
    names = names_for(options, (diff.a, diff.b), contexts=contexts)
    view = ShownPair(names, explanation, ("A", "B"), "B")
    pair = pair_data(view, ("A", "B"), contexts)
    shown = [names.input(PurePath(spec).name or spec) for spec in specs]
    blobs = {
        "pair-B": pack(pair.to_json()),
        "module-A": pack(module_data(diff.a, names).to_json()),
        "module-B": pack(module_data(diff.b, names).to_json()),
    }
    cards = tuple(cause.card for cause in pair.causes)
    return Report(
        title=f"{shown[0]} → {shown[1]}",
        subtitle=f"A is {shown[0]}, B is {shown[1]}; ignored as harmless: "
        + (", ".join(pair.noise) or "nothing"),
        verdict=pair.verdict,
        lost=None,
        stable=explanation.same,
        facts=_pair_facts(explanation),
        causes=tuple(card for card in cards if not card.expected),
        warm_up=tuple(card for card in cards if card.expected),
        run=None,
        pairs=(PairHead("B", pair.title, pair.verdict.what, view.opening()),),
        blobs=blobs,
        kinds=_kinds([explanation]),
        cuts=(),
        redacted=options.redact,
    )


def _pair_facts(explanation: Explanation) -> tuple[Fact, ...]:
    diff = explanation.diff
    return (
        Fact(f"{len(diff.a):,}", "instructions in A"),
        Fact(f"{len(diff.b):,}", "instructions in B"),
        Fact(f"{len(diff.changes):,}", "changed"),
        Fact(f"{len(diff.removed):,}", "only in A"),
        Fact(f"{len(diff.added):,}", "only in B"),
        Fact(f"{len(explanation.unexplained_a) + len(explanation.unexplained_b):,}", "unexplained"),
    )


def run_report(
    explained: RunExplanation,
    options: ReportOptions | None = None,
    ranks: RanksExplanation | None = None,
    notes: tuple[Message, ...] = (),
    comparison: Comparison | None = None,
) -> Report:
    """The report of a captured run.

    `ranks`: what was found between its ranks; `notes`: what other runs of the program say;
    `comparison`: with the run before.
    """
    options = options or ReportOptions()
    names = names_for(options, (), explained.run, files=explained.pairs.files())
    pairs = ShownPairs(explained, names, options.max_bytes)
    cuts = pairs.cuts
    kept = {head.identifier: head.address for head in pairs.heads}
    data = run_data(explained, names, kept, options.max_bytes // BYTES_A_COMPILE)
    blobs = pairs.blobs | run_blobs(data, timeline(explained, names))
    cards = group_cards(explained, names, kept, pairs.cards)
    problems = tuple(card for card in cards if not card.expected)
    is_first = bool(ranks and ranks.verdict)
    if ranks and is_first:
        source = excerpt(ranks.place, names)
    else:  # the lines stand above; the card of the first cause follows at once
        source = problems[0].source if problems else ()
        problems = tuple(replace(card, source=()) for card in problems[:1]) + problems[1:]
    verdict = _first(explained.verdict, ranks)
    if data.compiles_cut:
        cuts.append(f"{data.compiles_cut} rows of the list of compiles")
    return Report(
        title=names.input(explained.run.title),
        subtitle=_command(explained.run, names),
        verdict=advice(replace(verdict, notes=(*verdict.notes, *notes)), names),
        comparison=compared(comparison, names) if comparison else None,
        lost=_lost(explained, is_beside=is_first),
        aside=ranks.aside if ranks else "",
        source=source,
        stable=not (explained.has_problem or (ranks and ranks.has_problem)),
        facts=_run_facts(explained),
        causes=problems,
        warm_up=tuple(card for card in cards if card.expected),
        run=data,
        pairs=tuple(pairs.heads),
        blobs=blobs,
        kinds=_kinds(node.explanation for node in explained.graphs if node.explanation),
        cuts=tuple(cuts),
        redacted=options.redact,
        ranks=ranks_panel(ranks, [node.letter for node in explained.graphs], names)
        if ranks
        else None,
    )


def _lost(explained: RunExplanation, *, is_beside: bool) -> Lost | None:
    """The big number; `is_beside`: the verdict is of something else."""
    whole = explained.lost.wall_seconds
    if explained.lost.is_unknown or (is_beside and not whole):
        return None
    own = 0.0 if is_beside else own_seconds(explained.problems)
    seconds = own or whole
    is_also = is_beside or any(group.effect for group in explained.problems[:1])
    what = f"by this, of {duration(whole)} beyond" if own else "to compiles beyond"
    words = f"{'also lost' if is_also else 'lost'} {what} warm-up"
    return Lost(seconds, words, seconds >= MUCH and not is_also)


def _first(verdict: Verdict, ranks: RanksExplanation | None) -> Verdict:
    """What is wrong between ranks comes before what recompiles."""
    if ranks is None or ranks.verdict is None:
        return verdict
    then = say(f"{ranks.aside or 'Apart from that'}: ", verdict.what)
    return replace(ranks.verdict, notes=(*ranks.verdict.notes, then))


def run_blobs(data: RunData, times: Timeline) -> dict[str, str]:
    """What the page draws of a run's overview: the timeline, and long tables."""
    blobs = {"timeline": pack(times.to_json())}
    for section in data.sections:
        if len(section.rows) > ROWS_SHOWN:
            rows = [row.to_json() for row in section.rows]
            blobs[f"graphs-{section.anchor}"] = pack({"rows": rows})
    if len(data.compiles) > ROWS_SHOWN:
        blobs["compiles"] = pack({"rows": [row.to_json() for row in data.compiles]})
    return blobs


def _kinds(explanations: Iterable[Explanation | Outcome]) -> tuple[Kind, ...]:
    """The kinds of their causes, each once."""
    return tuple(dict.fromkeys(c.kind for e in explanations for c in e.causes))


def _command(run: Run, names: Names) -> str:
    record = run.processes[0].record
    program = names.path(record.argv[0]) if record.argv else ""
    versions = ", ".join(
        f"{package} {version}" for package, version in record.versions if package != "xlagraph"
    )
    return " · ".join(part for part in (program, versions) if part)


def _run_facts(explained: RunExplanation) -> tuple[Fact, ...]:
    processes = explained.run.processes
    by_design = explained.by_design
    wall, ranks = map(duration, (explained.spent.wall_seconds, explained.spent.rank_seconds))
    last = explained.steps - 1
    return (
        Fact(f"{explained.steps:,}", f"steps, 0 to {last:,}" if last > 0 else "step"),
        Fact(f"{len(processes):,}", "rank" if len(processes) == 1 else "ranks"),
        Fact(f"{explained.compiles:,}", "compiles"),
        Fact(wall, _compiling(explained)),
        *((Fact(ranks, "compiling, over all ranks"),) if ranks != wall else ()),
        Fact(
            duration(explained.warm_up.wall_seconds),
            "of it warm-up (first compiles)",
        ),
        *(
            (Fact(duration(by_design.wall_seconds), "of it for steps that differ on purpose"),)
            if by_design.spans
            else ()
        ),
        Fact(f"{len(explained.graphs):,}", _graphs(explained)),
        Fact(*_last_compile(explained)),
    )


def _graphs(explained: RunExplanation) -> str:
    """With the letters that all else on the page calls them by."""
    graphs = explained.graphs
    if len(graphs) < 2:
        return "distinct graph" if graphs else "distinct graphs"
    return f"distinct graphs, called {graphs[0].letter} to {graphs[-1].letter}"


def _last_compile(explained: RunExplanation) -> tuple[str, str]:
    stable = explained.stable_after
    if stable is None:
        return "last step", "still compiling"
    return (f"step {stable}" if explained.compiles else "none", "last compile")


def _compiling(explained: RunExplanation) -> str:
    number = sum(group.compiles for group in explained.groups if group.spent.is_unknown)
    return f"compiling ({number:,} not timed)" if number else "compiling"
