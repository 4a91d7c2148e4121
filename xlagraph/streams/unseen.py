"""What a log says that its recorder could not see, in the words that it has for it.

A log that another program wrote may use words of its own: they are shown as they are, and taken
for names where names are to be kept secret.
"""

from __future__ import annotations

from xlagraph.strings import StrEnum


class Unseen(StrEnum):
    """Things that are not in a log."""

    # stated by the recorder
    BETWEEN_COMPILED = "operators run eagerly between the compiled parts of a function"
    TRITON = "launches of Triton kernels outside torch.compile"
    EARLIER_GRAPHS = "replays of CUDA graphs captured before recording"
    WITHOUT_MEMORY = "tensors without memory of their own"
    UNSIZED = "allocations without a size"
    LOG_FULL = "what came after the log had reached its largest size"
    EARLIER_THREADS = "operators of threads that ran before recording began"
    CUPY = "CuPy kernels"
    PYCUDA = "PyCUDA kernels"
    NUMBA = "Numba kernels"
    # stated of a profile
    NO_RECORD_STREAM = "record_stream (a profile does not have it)"
    NO_INITIAL_GRADIENTS = "initial gradients (a profile does not mark them)"
    OPEN_WAITS = "waits between streams that the trace leaves open"
    OUTSIDE = "kernels that belong to no operator"
    OPAQUE = "kernels of which the trace does not say what they access"
    NO_SIZES = "streams and sizes of allocations (--memory gives them)"
    # met by the analysis
    APPROXIMATE = "approximate ranges"
    UNKNOWN_EVENTS = "waits for events that the log does not record"
    EARLIER_MEMORY = "frees of memory allocated before the log began"
    LATE_FREES = "frees near the end of the log, not judged"
    NO_MEMORY = "records with tensors that have no memory"
    UNKNOWN_KINDS = "records of unknown kinds"


_OURS = frozenset(map(str, Unseen))

BLOCK = "with a record_streams block"
STEP = "at step "
PROFILE = "with the profile"


def is_ours(text: str) -> bool:
    """Whether words of a log are xlagraph's, so that they cannot tell of the program."""
    step = text.removeprefix(STEP)
    return text in _OURS or text in (BLOCK, PROFILE) or (step != text and step.isdecimal())
