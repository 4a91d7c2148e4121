"""With ``--redact`` nothing that tells about the program is on the page of a stream log."""

from __future__ import annotations

import json

import pytest
from report_secrets import SECRET, all_that_is_said
from report_streams import bucket_log, page_of
from streams.logs import FIXTURES, log_from_text, real, real_records

NAMES = sorted(file.name.partition(".")[0] for file in FIXTURES.glob("*.jsonl.zst"))
TELLING = ("at", "fwd_at", "node", "param", "bucket", "tensor")


def disguised(name: str, *, drifts: bool = False) -> str:
    """A real log whose every text that tells about the program holds a secret."""
    lines = [{"k": "meta", "v": 1}, *real_records(name)]
    for line in lines:
        for key in TELLING:
            if isinstance(line.get(key), str):
                line[key] = f"/{SECRET}/{SECRET}_{line[key]}{SECRET}"
        if line["k"] == "op" and line["i"] % 3 == 0:
            line["op"] = f"{SECRET}lib.{line['op'].rpartition('.')[2]}.default"
    if drifts:
        middle = len(lines) // 2
        lines[1:1] = [{"k": "mark", "t": 1, "name": "step"}]
        lines[middle:middle] = [{"k": "mark", "t": 1, "name": "step"}]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_of_a_real_log_is_on_the_page(name: str) -> None:
    log = log_from_text(disguised(name, drifts=True))
    assert SECRET in all_that_is_said(page_of(log))
    said = all_that_is_said(page_of(log, redact=True))
    assert SECRET not in said
    assert "test.jsonl" not in said
    assert "Paths and names are pseudonyms" in said


def test_no_name_of_a_bucket_or_a_parameter_is_on_the_page() -> None:
    said = all_that_is_said(page_of(bucket_log(SECRET), redact=True))
    assert SECRET not in said
    assert "tensor1" in said


def test_the_same_name_has_the_same_pseudonym_in_card_picture_and_strip() -> None:
    report = page_of(bucket_log(SECRET), redact=True)
    (card,) = report.findings
    labels = [part.label for part in card.bucket]
    assert len(set(labels)) == 4
    for part in card.bucket:
        if part.missed:
            assert any(part.label in str(line.text) for line in card.earlier)
            assert part.label in part.title


def test_torch_s_own_names_stay() -> None:
    said = all_that_is_said(page_of(real("001_bug"), redact=True))
    assert "aten.copy_" in said
    assert "seeds.py" not in said


@pytest.mark.parametrize("name", NAMES)
def test_redaction_changes_names_only(name: str) -> None:
    plain, redacted = (page_of(real(name), redact=redact) for redact in (False, True))
    assert len(plain.findings) == len(redacted.findings)
    for one, other in zip(plain.findings, redacted.findings, strict=True):
        assert (one.kind, one.state, one.count, one.proved) == (
            other.kind, other.state, other.count, other.proved,
        )  # fmt: skip
        assert [line.address for line in one.earlier] == [line.address for line in other.earlier]
    assert [row.operators for row in plain.streams] == [row.operators for row in redacted.streams]
