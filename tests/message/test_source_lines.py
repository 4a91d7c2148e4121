"""Which source line a person is told."""

from __future__ import annotations

from xlagraph.cause.sources import at
from xlagraph.message import SourceLine, words
from xlagraph.message.parts import say
from xlagraph.run.records import Frame
from xlagraph.runs.graphs.context import own_frame


def said(file: str, line: int) -> str:
    return words(say(SourceLine(file, line)))


def test_installed_packages_are_libraries():
    assert SourceLine("/venv/lib/python3.11/site-packages/torch/nn/functional.py", 1).is_library
    assert SourceLine("/src/torch_xla/core/xla_model.py", 1).is_library
    assert SourceLine("/src/xlagraph/xlagraph/capture/tensors/fsdp.py", 1).is_library
    assert not SourceLine("/home/me/train.py", 1).is_library
    assert not SourceLine("torch.py", 1).is_library
    assert not SourceLine("/src/xlagraph/examples/train.py", 1).is_library


def test_a_title_shows_the_end_of_the_path():
    assert said("/a/b/c/train.py", 7) == "c/train.py:7"
    assert said("train.py", 7) == "train.py:7"
    assert said("/v/site-packages/torch/optim/sgd.py", 3) == "torch/optim/sgd.py:3 (a library)"
    assert str(at((SourceLine("train.py", 7),))) == " at train.py:7"
    assert not at(())


def test_the_innermost_frame_of_the_program_counts():
    frames = (
        Frame("/v/site-packages/torch/nn/functional.py", 1, "relu"),
        Frame("/me/model.py", 22, "forward"),
        Frame("/me/train.py", 5, "main"),
    )
    assert own_frame(frames) == SourceLine("/me/model.py", 22, "forward")
    assert own_frame(frames[:1]) == SourceLine(frames[0].file, 1, "relu")
    assert own_frame(()) is None
