"""Words of this project's, or of torch_xla's inside, that no reader has met."""

import re

JARGON = re.compile(
    r"\blive tensors?\b|\bset aside\b|\bcanon\w*|\bpending\b|(?<![.\w])sync\b(?!\()", re.IGNORECASE
)
