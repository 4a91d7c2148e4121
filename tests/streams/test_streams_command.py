"""``xlagraph streams`` as a user runs it: text, JSON, exit codes, what it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command import run_xlagraph
from golden import check
from real_modules import ROOT
from streams.logs import Writer

GOLDEN = Path(__file__).parent / "golden"
LOGS = "fixtures/streams"


xlagraph = partial(run_xlagraph, stdin=b"", COLUMNS="80")


@pytest.mark.parametrize(
    ("name", "code"),
    [("000min_bug", 1), ("001_bug", 1), ("002_Cones", 1), ("002_C1", 0), ("good_nccl_async", 0)],
)
def test_output(name: str, code: int) -> None:
    done = xlagraph("streams", f"{LOGS}/{name}.jsonl.zst")
    assert done.stderr == ""
    assert done.returncode == code
    check(done.stdout, GOLDEN / f"{name}.txt")


def test_the_finding_that_is_the_verdict_does_not_repeat_it() -> None:
    said = xlagraph("streams", f"{LOGS}/zero/0.19.2_refill.jsonl.zst", COLUMNS="200").stdout
    verdict, _, first, second, *_ = said.splitlines()
    sentence = "he ipg bucket is reduced on stream 5 before"
    assert verdict.startswith(f"Found: t{sentence}")
    assert verdict.endswith("1 more mistake below.")
    assert first == "1. bucket-race  (9 times, proved)"
    assert second.startswith("   - aten.copy_ on stream 4 writes bytes 0 to 32,767")
    assert said.count(sentence) == 1
    later = said.splitlines()[said.splitlines().index("4. race  (3 times, proved)") + 1]
    assert later.startswith("   On stream 2, aten.copy_ writes 32.0 KiB while c10d.allreduce_")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("001_bug", "bucket ipg[0] is"),
        ("zero/0.19.2_bucket", "the ipg bucket is"),
        ("zero/0.19.8_large", "the extra-large gradient is"),
        ("programs/replica_with_hooks_on_two_streams", "DDP bucket 0 of Branches is"),
    ],
)
def test_buckets_are_called_by_their_names(name: str, begins: str) -> None:
    assert xlagraph("streams", f"{LOGS}/{name}.jsonl.zst").stdout.startswith(f"Found: {begins}")


def test_json_has_what_the_text_has() -> None:
    done = xlagraph("streams", "--json", f"{LOGS}/001_bug.jsonl.zst")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert (said["schema"], said["kind"], said["verdict"]) == (1, "streams", "found")
    (finding,) = said["findings"]
    assert finding["kind"] == "bucket-race"
    assert finding["proved"] is True
    assert finding["earlier"][0]["site"] == "seeds.py:97 hook"
    assert finding["edges"] == [
        {
            "action": "wait", "source": 3, "target": 4, "before_line": 260,
            "site": "seeds.py:94 reduce",
        }
    ]  # fmt: skip
    assert finding["bucket"]["name"] == "ipg[0]"
    assert [stream["name"] for stream in said["streams"]] == [
        "the default stream", "stream 2", "stream 3", "stream 4",
    ]  # fmt: skip
    assert said["coverage"]["operators"] == 24


def test_every_key_is_documented() -> None:
    """docs/json.md names each key of every finding, stream and coverage."""
    documented = (ROOT / "docs" / "json.md").read_text().partition('`kind: "streams"`')[2]
    for name in ("000min_bug", "001_bug", "002_G"):
        said = json.loads(xlagraph("streams", "--json", f"{LOGS}/{name}.jsonl.zst").stdout)

        def keys(value: object) -> set[str]:
            if isinstance(value, dict):
                return set(value).union(*map(keys, value.values()))
            return set().union(*map(keys, value)) if isinstance(value, list) else set()

        listed = {
            key for key in keys(said) if f"`{key}`" in documented or f"`{key}[]`" in documented
        }
        missing = keys(said) - listed
        assert not missing


def test_a_log_may_come_from_standard_input() -> None:
    data = (ROOT / LOGS / "001_bug.jsonl.zst").read_bytes()
    done = xlagraph("streams", "-", stdin=data)
    assert done.returncode == 1
    assert "bucket-race" in done.stdout


def test_order_unknown_has_a_code_of_its_own() -> None:
    program = Writer()
    program.op("write", 101, w=[(1000, 64)])
    program.add("wait", e=7, s=102)
    program.op("read", 102, r=[(1000, 64)])
    lines = [{"k": "meta", "v": 1}, *program.records]
    done = xlagraph("streams", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    assert done.returncode == 3
    assert done.stdout.startswith("Order unknown:")


def test_bad_input_is_one_message() -> None:
    done = xlagraph("streams", "-", stdin=b'{"k":"meta","v":1}\n{"k":"op"}\n')
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'xlagraph: <stdin>:2:1: want a field "i" (a whole number) in this "op" record\n'
        '  {"k":"op"}\n  ^\n'
    )


def test_text_from_a_log_cannot_steer_the_terminal() -> None:
    program = Writer()
    program.op("write\x1b[31m", 101, w=[(1000, 64)], at="a.py:1 \x1b]0;x\x07")
    program.op("read", 102, r=[(1000, 64)])
    lines = [{"k": "meta", "v": 1}, *program.records]
    done = xlagraph("streams", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


@pytest.mark.parametrize("seed", ["1", "2"])
def test_output_does_not_depend_on_hashing(seed: str) -> None:
    said = xlagraph("streams", "--json", f"{LOGS}/001c_bug.jsonl.zst", PYTHONHASHSEED=seed).stdout
    assert said == xlagraph("streams", "--json", f"{LOGS}/001c_bug.jsonl.zst").stdout


def test_nothing_heavy_and_no_hlo_is_loaded() -> None:
    code = (
        "import sys\nfrom xlagraph.cli.app import cli\n"
        f"try: cli.main(['streams', '{LOGS}/good_plain.jsonl.zst'])\nexcept SystemExit: pass\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert not set(loaded) & {"torch", "networkx", "jinja2", "numpy"}
    assert not [name for name in loaded if name.startswith(("xlagraph.hlo", "xlagraph.cause"))]
