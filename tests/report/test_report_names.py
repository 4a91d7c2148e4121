"""How a report names things: paths cut, invisible characters shown, pseudonyms."""

from __future__ import annotations

import pytest

from xlagraph.report.names import PlainNames, shared_folder, visible
from xlagraph.report.redact import RedactedNames, name_parts, tensor_core


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (["/home/me/app/train.py", "/home/me/app/lib/model.py"], "/home/me/app/"),
        (["/home/me/train.py", "/venv/site-packages/torch/nn.py"], "/home/me/"),
        (["/a/x.py", "/b/y.py"], ""),
        (["train.py"], ""),
        ([], ""),
    ],
)
def test_the_folder_that_the_program_shares(files: list[str], folder: str) -> None:
    assert shared_folder(files) == folder


def test_paths_are_cut_in_names_and_in_sentences() -> None:
    names = PlainNames(["/home/me/app/train.py", "/home/me/app/lib/model.py"])
    assert names.path("/home/me/app/lib/model.py") == "lib/model.py"
    assert names.path("/venv/lib/site-packages/torch/nn.py") == "torch/nn.py"
    sentence = "made at /home/me/app/train.py:3, seen from /venv/lib/site-packages/torch/nn.py:9"
    assert names.text(sentence) == "made at train.py:3, seen from torch/nn.py:9"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\u202eb\x00c\u2066\ud800\ufeff") == r"a\u202eb\u0000c\u2066\ud800\ufeff"
    assert visible("ä 漢 \n\t") == "ä 漢 \n\t"


def test_a_file_that_is_cited_by_its_end_is_the_same_file() -> None:
    files = ["/home/me/app/train.py", "/venv/site-packages/torch/nn/linear.py"]
    plain = PlainNames(files)
    assert plain.text("at app/train.py:3 and torch/nn/linear.py:4") == (
        "at train.py:3 and torch/nn/linear.py:4"
    )
    redacted = RedactedNames([], [], [], files)
    assert redacted.path("/home/me/app/train.py") == redacted.path("train.py") == "file1.py"
    assert redacted.text("at app/train.py:3, x/train.py:3") == "at file1.py:3, file2.py:3"
    assert redacted.text("torch/nn/linear.py:4") == redacted.path(files[1]) + ":4"


@pytest.fixture
def redacted() -> RedactedNames:
    return RedactedNames(
        tensors=["net.head: weight shard", "net.head", "f32[4]"],
        instructions=[("add.1", "add"), ("secret", "multiply"), ("constant", "constant")],
        words={"main.7", "add"},
    )


def test_a_name_keeps_its_pseudonym(redacted: RedactedNames) -> None:
    first = redacted.tensor("net.head: weight shard")
    assert first == redacted.tensor("net.head: weight shard")
    assert first != redacted.tensor("net.head")
    assert (
        redacted.tensor("waiting gradient of net.head: weight shard")
        == f"waiting gradient of {first}"
    )
    assert redacted.tensor("net.head: weight shard, 2 steps old") == f"{first}, 2 steps old"
    assert redacted.tensor("f32[4]") == "f32[4]"
    assert redacted.tensor("parameter 12") == "parameter 12"


def test_sentences_lose_names_and_paths_and_keep_words(redacted: RedactedNames) -> None:
    text = "output 2 (net.head: weight shard) of secret, by add at /home/me/t.py:7 and lib/u.py:8."
    said = redacted.text(text)
    assert said == "output 2 (tensor1) of multiply.1, by add at file1.py:7 and file2.py:8."


def test_parts_of_names_are_names(redacted: RedactedNames) -> None:
    assert (
        redacted.text("net: head.weight, weight x2 of net.head")
        == "net: head.weight, name1 x2 of tensor1"
    )
    assert name_parts("blocks.0.up.bias: w shard") == {
        *("blocks.0.up.bias", "blocks.0", "blocks.0.up", "0.up", "0.up.bias", "up.bias", "w"),
    }


def test_attributes_lose_quoted_texts_and_names(redacted: RedactedNames) -> None:
    text = (
        ', to_apply=%main.7, dimensions={0}, custom_call_target="mine", direction=LT, '
        'metadata={op_name="a b" source_line=3}, frontend_attributes={k={"v"}}, body=main.7'
    )
    assert redacted.attributes(text) == (
        ', to_apply=%computation.1, dimensions={0}, custom_call_target="text1", direction=LT, '
        'metadata={op_name="text2" source_line=3}, frontend_attributes={}, body=computation.1'
    )


@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("blocks.0: up.bias shard, 1 step old", "blocks.0: up.bias shard"),
        ("waiting gradient of w", "w"),
        ("gradient of w, held by its callback", "w"),
        ("w (SGD momentum_buffer)", "w"),
        ("(f32[4], s32[])", ""),
        ("output 3", ""),
        ("", ""),
    ],
)
def test_the_part_of_a_name_that_the_program_chose(name: str, core: str) -> None:
    assert tensor_core(name) == core
