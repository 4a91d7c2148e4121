"""Steps in shared memory: what readers take from it, and what they do not fall for."""

import os
import struct
import sys

import pytest

from xlagraph.run import journal
from xlagraph.run.codec import again, encode
from xlagraph.run.journal import CELL_BYTES, CELLS, FIRST, MAGIC, PER_STEP, STEPS, read_journal
from xlagraph.run.reader import read_run
from xlagraph.run.records import FORMAT_VERSION, LIMIT, NoteRecord, ProcessRecord, SyncRecord

TOKEN = "0123456789abcdef" * 2
SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/shm")


@pytest.fixture(autouse=True)
def shared_memory(monkeypatch, tmp_path):
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(journal, "FOLDER", folder)
    monkeypatch.setattr("xlagraph.capture.journal.FOLDER", folder)
    return folder


def page(*steps, magic=MAGIC):
    cells = [0] * CELLS
    cells[0] = magic
    for number, step in enumerate(steps):
        cells[FIRST + PER_STEP * number : FIRST + PER_STEP * (number + 1)] = step
    return struct.pack(f"={CELLS}q", *cells)


def sync(index, step, **changes):
    fields = {
        "index": index, "step": step, "rank": 0, "time": 1_800_000_000 + index, "seconds": 0.25,
        "kind": "step", "entry": "sync", "outcome": "hit", "compile_seconds": 0.0,
        "graphs": ("d" * 32,), "graph_is_inferred": True, "fingerprint": (5,), "call_site": (),
        "live_tensors": (), "buckets": (),
    }  # fmt: skip
    return SyncRecord(**fields | changes)


def ran(of, second):
    return of, START + second * SECOND, START + second * SECOND + 5


def run_of(folder, *lines):
    head = ProcessRecord(FORMAT_VERSION, 0, 1, "h", 7, 1.5, ("t.py",), 1, (), journal=TOKEN)
    folder.mkdir()
    text = "\n".join(map(str, (encode(head), *lines))) + "\n"
    (folder / "records-0-h-7.jsonl").write_text(text)
    (process,) = read_run(folder).processes
    return process


def test_steps_of_a_killed_process_follow_those_it_wrote(tmp_path, shared_memory):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(1, 3), ran(1, 4), ran(0, 5)))
    value = encode(sync(0, 0, kind="value", entry="item", fingerprint=(3,)))
    found = run_of(tmp_path / "run", value, encode(sync(1, 0))).syncs
    assert [(one.index, one.step, one.kind) for one in found] == [
        (0, 0, "value"), (1, 0, "step"), (2, 1, "step"), (3, 2, "step"), (4, 3, "value"),
    ]  # fmt: skip
    assert (found[3].time, found[3].seconds) == (1_800_000_004.0, 5e-9)
    assert found[3].fingerprint == (5,)


def test_steps_that_were_written_meanwhile_count_once(tmp_path, shared_memory):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, 1), ran(0, 2), ran(0, 3)))
    lines = [(again(0) % (n, n, START + n * SECOND, 5)).decode().strip() for n in (1, 2)]
    found = run_of(tmp_path / "run", encode(sync(0, 0)), *lines).syncs
    assert [one.index for one in found] == [0, 1, 2, 3]


def test_a_clock_set_back_loses_no_step(tmp_path, shared_memory):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, -50), ran(0, -49)))
    found = run_of(tmp_path / "run", encode(sync(0, 0))).syncs
    assert [one.index for one in found] == [0, 1, 2]


def test_nothing_is_added_to_a_file_that_was_full(tmp_path, shared_memory):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, 1)))
    full = encode(NoteRecord(0, LIMIT, "9 of 9 bytes written"))
    assert len(run_of(tmp_path / "run", encode(sync(0, 0)), full).syncs) == 1


def test_steps_like_one_that_cannot_be_read_are_left_out(tmp_path, shared_memory):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, 1), ran(8, 2), ran(0, 3)))
    assert len(run_of(tmp_path / "run", encode(sync(0, 0))).syncs) == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"record":"again","of":0,"index":1,"step":1,"time_ns":1' + "0" * 400 + ',"took_ns":1}',
        '{"record":"again","of":0,"index":"x","step":1,"time_ns":1,"took_ns":1}',
        '{"record":"sync","index":1e999}',
        "[" * 100_000,
    ],
    ids=["large", "no number", "infinite", "deep"],
)
def test_hostile_lines_are_counted(tmp_path, shared_memory, line):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, 1)))
    process = run_of(tmp_path / "run", encode(sync(0, 0)), line)
    assert (process.unread_lines, len(process.syncs)) == (1, 2)


def test_a_full_page_is_read_to_its_end(shared_memory):
    steps = [ran(0, second) for second in range(1, STEPS + 1)]
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(*steps))
    assert list(read_journal(TOKEN)) == steps


@pytest.mark.parametrize(
    "content",
    [
        b"", b"x" * CELL_BYTES, bytes(CELLS * CELL_BYTES), page(ran(0, 1), magic=7),
        page(ran(0, 1)) + b"0", page(ran(0, 1))[:-1],
    ],
    ids=["empty", "short", "zeros", "other magic", "long", "cut"],
)  # fmt: skip
def test_other_files_are_no_journal(shared_memory, content):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(content)
    assert read_journal(TOKEN) == ()


@pytest.mark.parametrize("token", ["", "..", "../x", "/etc/passwd", TOKEN.upper(), TOKEN + "\n"])
def test_a_token_names_no_other_file(shared_memory, token):
    (shared_memory / (journal.PREFIX + TOKEN)).write_bytes(page(ran(0, 1)))
    assert read_journal(token) == ()


def test_links_and_pipes_are_not_followed(shared_memory, tmp_path):
    (tmp_path / "real").write_bytes(page(ran(0, 1)))
    place = shared_memory / (journal.PREFIX + TOKEN)
    place.symlink_to(tmp_path / "real")
    assert read_journal(TOKEN) == ()
    place.unlink()
    os.mkfifo(place)
    assert read_journal(TOKEN) == ()  # and does not wait for a writer
    place.unlink()
    place.mkdir()
    assert read_journal(TOKEN) == ()


def test_what_is_stored_is_read_until_it_is_closed(monkeypatch, shared_memory):
    from xlagraph.capture import journal as own

    monkeypatch.setattr(own, "_is_tmpfs", lambda folder: folder == shared_memory)
    one = own.Journal()
    assert read_journal(one.token) == ()
    one.cells[FIRST : FIRST + 2] = memoryview(struct.pack("=2q", 4, START)).cast("q")
    assert read_journal(one.token) == (), "a step that has not ended"
    one.cells[FIRST + 2] = START + 9
    assert read_journal(one.token) == ((4, START, START + 9),)
    one.close()
    assert not list(shared_memory.iterdir())


def test_of_killed_processes_only_the_newest_are_kept(monkeypatch, shared_memory):
    from xlagraph.capture import journal as own

    monkeypatch.setattr(own, "_is_tmpfs", lambda _: True)
    running = own.Journal()
    os.utime(shared_memory / (journal.PREFIX + running.token), (1, 1))
    for number in range(own._KEPT + 9):
        left = shared_memory / f"{journal.PREFIX}{number:032x}"
        left.write_bytes(page())
        os.utime(left, (number + 2, number + 2))
    other = own.Journal()
    kept = {path.name.removeprefix(journal.PREFIX) for path in shared_memory.iterdir()}
    dead = {f"{number:032x}" for number in range(9, own._KEPT + 9)}
    assert kept == dead | {running.token, other.token}
    running.close()
    other.close()


def test_only_memory_will_do(shared_memory):
    from xlagraph.capture import journal as own

    with pytest.raises(OSError, match="not a tmpfs"):
        own.Journal()  # a folder on a disk: a program that stores there dies when it is full
    assert not list(shared_memory.iterdir())
