"""What other runs of the same program say: whether one is the newest, what it was before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.errors import XlagraphError
from xlagraph.message import EMPTY, Code, Message, moment, say
from xlagraph.run.reader import read_run
from xlagraph.run.recent import before_and_after
from xlagraph.runs.explain import explain_run
from xlagraph.runs.two_runs import was_and_now

if TYPE_CHECKING:
    from xlagraph.runs.model import RunExplanation
    from xlagraph.runs.pairs.work import Means


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Runs of one program beside an explained one, as paths; empty where there is none."""

    before: str = ""
    after: str = ""
    after_began: float = 0.0
    """Unix time in seconds."""
    was: Message = EMPTY
    """What the run before lost and this one does not."""

    @property
    def notes(self) -> tuple[Message, ...]:
        """What to tell the reader of the explained run."""
        begun = f", begun {moment(self.after_began)}."
        newer = say("This run is not the newest of its program: that is ", Code(self.after), begun)
        return tuple(note for note, there in ((self.was, self.was), (newer, self.after)) if there)


def neighbours_of(explained: RunExplanation, means: Means | None = None) -> Neighbours:
    """Looks for other runs in the folder of one; explains the one before if this is stable."""
    earlier, later = before_and_after(explained.run)
    before = str(earlier.path) if earlier else ""
    beside = Neighbours(before, str(later.path), later.started) if later else Neighbours(before)
    if not before or explained.has_problem:
        return beside
    try:
        old = explain_run(read_run(before), means)
    except XlagraphError as error:
        return replace(beside, was=say("The run before cannot be read: ", Code(str(error))))
    if not old.has_problem:
        return beside
    was = say("Compared with ", Code(before), ": ", was_and_now(old, explained), ".")
    return replace(beside, was=was)
