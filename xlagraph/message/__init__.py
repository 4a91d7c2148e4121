"""What is said to a user: messages of typed parts, put into words where they are shown."""

from xlagraph.message.parts import (
    EMPTY,
    A,
    B,
    Change,
    Code,
    GraphName,
    HloName,
    Message,
    Operation,
    Part,
    Quoted,
    Side,
    SourceLine,
    grouped,
    join,
    say,
)
from xlagraph.message.render import PLAIN, PlainWording, Wording, spans, words
from xlagraph.message.words import count, duration, rank_time

__all__ = [
    "EMPTY",
    "PLAIN",
    "A",
    "B",
    "Change",
    "Code",
    "GraphName",
    "HloName",
    "Message",
    "Operation",
    "Part",
    "PlainWording",
    "Quoted",
    "Side",
    "SourceLine",
    "Wording",
    "count",
    "duration",
    "grouped",
    "join",
    "rank_time",
    "say",
    "spans",
    "words",
]
