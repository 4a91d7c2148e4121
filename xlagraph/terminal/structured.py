"""Explanations as JSON: versioned, documented in docs/json.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import say, words
from xlagraph.terminal.ranks import ranks_json
from xlagraph.terminal.reasons import evidence_json, reason_json

if TYPE_CHECKING:
    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import BucketRow, Cause, Explanation
    from xlagraph.cause.verdict import Verdict
    from xlagraph.graph import Module
    from xlagraph.ranks.explain import RanksExplanation
    from xlagraph.runs.model import CauseGroup, GraphNode, RunExplanation
    from xlagraph.runs.neighbours import Neighbours
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.spent import Spent

SCHEMA_VERSION = 2
"""2: verdicts and causes are What, Where and Fix."""

Json = dict[str, object]


def explanation_json(explanation: Explanation, name_a: str, name_b: str) -> Json:
    """The explanation of a pair as plain data."""
    diff = explanation.diff
    return {
        "schema": SCHEMA_VERSION,
        "kind": "diff",
        "same": explanation.same,
        "evaluated": explanation.evaluated,
        "verdict": verdict_json(explanation.verdict),
        "proved": explanation.proved,
        "set_aside": {"a": list(explanation.scope.a), "b": list(explanation.scope.b)},
        "a": _module(diff.a, name_a),
        "b": _module(diff.b, name_b),
        "differing": diff.differing,
        "causes": [cause_json(cause, explanation) for cause in explanation.causes],
        "unexplained": {
            "share": explanation.unexplained_share,
            "a": [diff.a.names[i] for i in explanation.unexplained_a],
            "b": [diff.b.names[i] for i in explanation.unexplained_b],
        },
        "changes": [
            {"a": diff.a.names[c.a], "b": diff.b.names[c.b], "fields": list(c.fields)}
            for c in diff.changes
        ],
        "removed": [diff.a.names[i] for i in diff.removed],
        "added": [diff.b.names[i] for i in diff.added],
        "parameters": [[s.a, s.b] for s in diff.parameters],
        "outputs": [[s.a, s.b] for s in diff.outputs],
        "header": [{"field": h.field, "a": h.a, "b": h.b} for h in diff.header],
        "noise": diff.noise._asdict(),
        "buckets": {
            "a": [_bucket(row, diff.a) for row in explanation.buckets_a],
            "b": [_bucket(row, diff.b) for row in explanation.buckets_b],
        },
    }


def verdict_json(verdict: Verdict) -> Json:
    """The three lines, and what limits them."""
    return {
        "what": words(verdict.what),
        "where": words(verdict.where),
        "fix": words(verdict.fix),
        "notes": [words(note) for note in verdict.notes],
    }


def cause_json(cause: Cause, whole: Explanation | Outcome) -> Json:
    """One cause of an explanation; instructions by name."""
    return {
        **reason_json(cause),
        "share": cause.share,
        "proof": words(cause.proof),
        "expected": cause.expected,
        "evidence": [
            {
                **evidence_json(evidence),
                "a": [whole.instruction("a", i)[0] for i in evidence.a],
                "b": [whole.instruction("b", i)[0] for i in evidence.b],
            }
            for evidence in cause.evidence
        ],
        "a": [whole.instruction("a", i)[0] for i in sorted(cause.a)],
        "b": [whole.instruction("b", i)[0] for i in sorted(cause.b)],
    }


def kind_json(kind: Kind) -> Json:
    """A kind of cause as the catalogue has it."""
    return {
        "kind": kind.id,
        "title": kind.title,
        "section": kind.section.value,
        "meaning": kind.meaning,
        "before": kind.before,
        "after": kind.after,
        "evidence": kind.evidence,
        "fix": kind.fix,
        "proof": kind.proof,
    }


def run_json(
    explained: RunExplanation,
    ranks: RanksExplanation | None = None,
    neighbours: Neighbours | None = None,
) -> Json:
    """The explanation of a run as plain data; graphs in order of appearance.

    `ranks`: what was found between its ranks; `neighbours`: other runs of its program.
    """
    letters = {node.digest: node.letter for node in explained.graphs}
    return {
        "schema": SCHEMA_VERSION,
        "kind": "run",
        "verdict": verdict_json(explained.verdict),
        "run": explained.run.name,
        "before": neighbours.before if neighbours else "",
        "newer": neighbours.after if neighbours else "",
        "was": words(neighbours.was) if neighbours else "",
        "steps": explained.steps,
        "compiles": explained.compiles,
        **spent_json(explained.spent),
        "lost": spent_json(explained.lost),
        "unseen": explained.unseen,
        "first_step": explained.first_step,
        "stable_after": explained.stable_after,
        "alternating": list(explained.alternating),
        "unnamed_hits": explained.unnamed_hits,
        "ranks": ranks_json(ranks, letters) if ranks else None,
        "groups": [group_json(group) for group in explained.groups],
        "graphs": [
            {
                "digest": node.digest,
                "letter": node.letter,
                "rank": node.rank,
                "step": node.step,
                "call_site": str(node.call_site or ""),
                "compiles": node.compiles,
                "hits": node.hits,
                "unnamed_hits": node.unnamed_hits,
                **spent_json(node.spent),
                "instructions": node.instructions,
                "nearest": node.nearest,
                "warm_up": node.warm_up,
                "part": words(node.part),
                "causes": _causes(explained, node),
            }
            for node in explained.graphs
        ],
    }


def spent_json(spent: Spent) -> Json:
    """Time on the clock, and summed over ranks."""
    found = {"wall_seconds": spent.wall_seconds, "rank_seconds": spent.rank_seconds}
    return {name: round(seconds, 6) for name, seconds in found.items()}


def group_json(group: CauseGroup) -> Json:
    """One reason of a run's compiles."""
    return {
        **reason_json(group),
        "evidence": [evidence_json(one) for one in group.cause.evidence] if group.cause else [],
        "further": [words(cause.title) for cause in group.further],
        "second": [reason_json(cause) for cause in group.second],
        "alike": [words(say(line)) for line in group.elsewhere],
        "follows": [words(one) for one in group.follows],
        "graphs": list(group.graphs),
        "compiles": group.compiles,
        **spent_json(group.spent),
        "expected": group.expected,
        "meant": str(group.meant),
    }


def _causes(explained: RunExplanation, node: GraphNode) -> list[Json]:
    if node.explanation is None:
        return []
    outcome = explained.outcome(node)
    return [cause_json(cause, outcome) for cause in outcome.causes]


def _module(module: Module, name: str) -> Json:
    return {"spec": name, "module": module.name, "instructions": len(module)}


def _bucket(row: BucketRow, module: Module) -> Json:
    return {
        "instruction": module.names[row.instruction],
        "opcode": row.opcode,
        "tensors": [words(say(tensor)) for tensor in row.tensors],
        "shapes": list(row.shapes),
        "carried": list(row.carried),
    }
