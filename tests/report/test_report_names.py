"""How a report names things: paths cut, invisible characters shown, pseudonyms."""

from __future__ import annotations

import pytest

from xlagraph.hlo import read_module
from xlagraph.message import Change, Code, HloName, Quoted, SourceLine, say, words
from xlagraph.report.names import PlainNames, shared_folder, visible
from xlagraph.report.redact import RedactedNames
from xlagraph.run.legacy import tensor_of
from xlagraph.tensors import Role, Tensor


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
    library = SourceLine("/venv/lib/site-packages/torch/nn.py", 9)
    sentence = say("made at ", SourceLine("/home/me/app/train.py", 3), ", seen from ", library)
    assert words(sentence, names) == "made at train.py:3, seen from torch/nn.py:9 (a library)"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\u202eb\x00c\u2066\ud800\ufeff") == r"a\u202eb\u0000c\u2066\ud800\ufeff"
    assert visible("ä 漢 \n\t") == "ä 漢 \n\t"
    assert words(say(Quoted("a\u202eb"), Code("\x00")), PlainNames([])) == r"a\u202eb\u0000"


@pytest.fixture
def redacted() -> RedactedNames:
    names = RedactedNames()
    names.learn(
        [
            read_module(
                "HloModule m\n\nadd {\n  ROOT constant = f32[] constant(1)\n}\n\nENTRY main.7 {\n"
                "  p = f32[] parameter(0)\n  add.1 = f32[] add(p, p)\n"
                "  ROOT secret = f32[] multiply(add.1, p)\n}\n"
            )
        ]
    )
    return names


def test_a_name_keeps_its_pseudonym(redacted: RedactedNames) -> None:
    shard = Tensor("net.head", "weight", Role.BUCKET, shard=True)
    first = redacted.tensor(shard)
    assert first == redacted.tensor(shard) == "module1: tensor1 shard"
    assert redacted.tensor(Tensor("net", "head")) == "tensor2"
    waiting = Tensor("net.head", "weight", Role.WAITING, shard=True)
    assert redacted.tensor(waiting) == f"waiting gradient of {first}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w (SGD momentum_buffer)", "tensor1 (SGD momentum_buffer)"),
        ("w (Mine secret_state)", "tensor1 (name1 name2)"),
        ("a.w.grad", "tensor1.grad"),
    ],
)
def test_what_a_tensor_is_stays(redacted: RedactedNames, text: str, said: str) -> None:
    tensor = tensor_of(text)
    assert isinstance(tensor, Tensor)
    assert redacted.tensor(tensor) == said


def test_sentences_lose_names_and_paths_and_keep_words(redacted: RedactedNames) -> None:
    sentence = say(
        "output 2 (", Tensor("net.head", "weight"), ") of ", HloName("secret", "multiply"),
        ", by add at ", SourceLine("/home/me/t.py", 7), " and ", SourceLine("lib/u.py", 8),
        ", held by ", Code("history[0] in module train"), ".",
    )  # fmt: skip
    assert words(sentence, redacted) == (
        "output 2 (tensor1) of multiply.1, by add at file1.py:7 and file2.py:8, held by code1."
    )


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
    ("text", "said"),
    [
        ("f32[2,4]{1,0:T(2,128)(2,1)}", "f32[2,4]{1,0:T(2,128)(2,1)}"),
        ("{devices=[2,2]<=[4] last_tile_dims={manual}}", None),
        ("dim_labels=b01f_01io->b01f, window={size=3x3 pad=1_1x1_1}", None),
        ("{ { -0, 1e-05, nan }, { inf, 0x1p-3, 2 } }", None),
        ("secret_axis=2", "name1=2"),
        ("'it is mine", '"text1"'),
        ('"cut off, project_manhattan', '"text1"'),
        ("project=manhattan", "name1=name2"),
    ],
)
def test_only_the_words_of_xla_stay(redacted: RedactedNames, text: str, said: str | None) -> None:
    assert redacted.attributes(text) == (text if said is None else said)


def test_texts_are_redacted_before_they_are_cut(redacted: RedactedNames) -> None:
    values = [f'"{"long " * 30}, project_manhattan = 1, and = {end}"' for end in ("more", "2")]
    assert words(say(Change(*values)), redacted) == '"text1" -> "text2"'
    assert words(say(Quoted(values[0])), redacted) == '"text1"'
