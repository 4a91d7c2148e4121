"""What was found between the ranks of a run, for the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.collectives.program import Collective
from xlagraph.message import say, words
from xlagraph.ranks.alike import alike
from xlagraph.ranks.words import (
    alike_words,
    cause_words,
    collective_words,
    cost_words,
    divergence_words,
    matching_words,
    own_number_words,
    stop_words,
)
from xlagraph.terminal.advice import INDENT, Shown, print_verdict
from xlagraph.terminal.places import where_json
from xlagraph.terminal.reasons import evidence_json, reason_json
from xlagraph.terminal.style import labelled, paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from xlagraph.message import Message
    from xlagraph.ranks.explain import Divergence, RanksExplanation, Stop

    Json = dict[str, object]

MAX_ROWS = 4


def print_ranks(console: Console, found: RanksExplanation, shown: Shown) -> None:
    """Prints the verdict on the ranks, who stands where, and what compiling costs the job."""
    if found.verdict:
        print_verdict(console, found.verdict, found.place)
    console.print(paragraph(_head(found)))
    for message, lines in _sections(found):
        console.print(paragraph(message, INDENT))
        for line in lines[: shown.few(MAX_ROWS)]:
            console.print(labelled("-", line, INDENT))
        left = len(lines) - len(lines[: shown.few(MAX_ROWS)])
        if left:
            console.print(labelled("-", f"{left} more (--full shows all)", INDENT))
    console.print()
    if found.aside:
        console.print(paragraph(f"{found.aside}:", style="bold"))
        console.print()


def _head(found: RanksExplanation) -> str:
    job = found.job
    named = f" (numbered by {', '.join(job.sources)})" if job.sources else ""
    ran = len(job.ranks)
    some = f" of {job.world}" if ran < job.world else ""
    kinds = "".join(f", {kind}" for kind in found.kinds)
    return f"{ran}{some} ranks{named}{kinds}:"


def _sections(found: RanksExplanation) -> Iterator[tuple[Message, list[Message]]]:
    yield say(matching_words(found.matching), "."), [stop_words(stop) for stop in found.stops]
    for one in alike(found.divergences):
        cause, line = cause_words(one.first), one.first.line
        lines = [cause] if cause else []
        if line and not cause:
            lines = [say("it ran at " if one.ran else "that step ends at ", line)]
        yield say(alike_words(one).sentence, "."), lines
    for numbers in found.own_numbers:
        yield say(own_number_words(numbers).sentence, "."), []
    total, *parts = cost_words(found.cost)
    yield total, parts


def ranks_json(found: RanksExplanation, letters: Mapping[str, str]) -> Json:
    """The same as plain data; graphs by digest. `letters`: by digest."""
    job, matching, cost = found.job, found.matching, found.cost
    digests = {letter: digest for digest, letter in letters.items()}
    return {
        "world": job.world,
        "named_by": list(job.sources),
        "ranks": [
            {
                "rank": one.rank,
                "host": one.process.record.host,
                "local_rank": one.process.record.local_rank,
                "ended": one.plan.ended,
            }
            for one in job.ranks
        ],
        "problem": found.has_problem,
        "kinds": [kind.id for kind in found.kinds],
        "verdict": words(found.verdict.message) if found.verdict else "",
        "where": where_json(found.place) if found.verdict else None,
        "collectives": {
            "outcome": matching.outcome.value,
            "certain": matching.certain,
            "reason": matching.reason.value if matching.reason else "",
            "matched": matching.matched,
            "doubts": [doubt.name.lower().replace("_", "-") for doubt in matching.doubts],
            "waits": [_stop_json(stop) for stop in found.stops],
            "ended": [
                {
                    "ranks": list(one.ranks),
                    "step": one.step,
                    "source": str(one.line or ""),
                    "loop": str(one.loop or ""),
                }
                for one in found.ended
            ],
        },
        "divergences": [_divergence_json(one, digests) for one in found.divergences],
        "own_numbers": [
            {
                "ranks": list(one.ranks),
                "graphs": [digests[letter] for letter in one.letters],
                "places": len(one.numbers.instructions),
                "first": one.numbers.first,
                "step": one.numbers.step,
                "sources": [str(line) for line in one.lines],
            }
            for one in found.own_numbers
        ],
        "cost": {
            "seconds": cost.seconds,
            "spent": cost.spent,
            "by_clock": cost.by_clock,
            "stragglers": [
                {"step": one.step, "ranks": list(one.ranks), "seconds": one.seconds}
                for one in cost.stragglers
            ],
            "outliers": [
                {"rank": o.rank, "graph": o.digest, "seconds": o.seconds, "usual": o.usual}
                for o in cost.outliers
            ],
            "missed": [
                {"graph": o.digest, "compiled": list(o.compiled), "loaded": list(o.loaded)}
                for o in cost.missed
            ],
        },
    }


def _stop_json(stop: Stop) -> Json:
    wait = stop.wait
    item = wait.item
    return {
        "ranks": list(wait.ranks),
        "group": list(wait.group),
        "waits_for": list(wait.missing),
        "cause": wait.is_root,
        "step": wait.step,
        "graph": wait.digest,
        "opcode": item.opcode if isinstance(item, Collective) else "",
        "text": words(collective_words(stop)),
        "shapes": list(stop.stand.shapes),
        "tensors": [words(say(tensor)) for tensor in stop.stand.tensors],
        "sources": [str(line) for line in stop.stand.lines],
        "callers": [str(line) for line in stop.stand.callers],
    }


def _divergence_json(one: Divergence, digests: Mapping[str, str]) -> Json:
    explanation = one.explanation
    return {
        "ranks": list(one.difference.ranks),
        "others": list(one.difference.others),
        "steps": list(one.difference.steps),
        "ran": [digests[letter] for letter in one.ran],
        "usual": [digests[letter] for letter in one.usual],
        "text": words(divergence_words(one)),
        "causes": [
            {**reason_json(cause), "evidence": [evidence_json(line) for line in cause.evidence]}
            for cause in (explanation.causes if explanation else ())
        ],
        "call_site": str(one.line or ""),
    }
