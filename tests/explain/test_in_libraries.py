"""Values that are baked in by code that the user did not write."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PACKAGES = "/venv/lib/python3.11/site-packages"
ADVICE = "Inside {}:9 (a library): call it less often, or with CPU tensors."


def step(start: int, *files: str) -> str:
    """A slice that begins there, in code of the last of these files, which the others lead to."""
    number = len(files)
    names = "\n".join(f'{k + 1} "{file}"' for k, file in enumerate(files))
    places = "\n".join(
        f"{k + 1} {{file_name_id={k + 1} function_name_id=1 line={9 if k else 5} end_line=9 "
        "column=0 end_column=0}"
        for k in range(number)
    )
    frames = "\n".join(
        f"{k + 1} {{file_location_id={k + 1} parent_frame_id={k + 1}}}" for k in range(number)
    )
    return f"""HloModule step

FileNames
{names}

FunctionNames
1 "run"

FileLocations
{places}

StackFrames
{frames}

ENTRY main {{
  x = f32[32,4] parameter(0)
  s = f32[8,4] slice(x), slice={{[{start}:{start + 8}], [0:4]}},
    metadata={{op_name="slice" stack_frame_id={number}}}
  y = f32[8,4] sine(s), metadata={{op_name="sin" stack_frame_id=1}}
  ROOT t = (f32[8,4]) tuple(y)
}}
"""


def told(*files: str):
    a, b = (read_module(step(start, *files)) for start in (3, 7))
    (cause,) = explain_modules(a, b).causes
    assert cause.kind.id == "python-index"
    return cause


@pytest.mark.parametrize("inner", [(), (f"{PACKAGES}/torch/functional.py",)])
def test_code_of_a_library_is_called_otherwise(inner):
    cause = told("train.py", f"{PACKAGES}/peft/layer.py", *inner)
    assert str(cause.fix_in_short) == ADVICE.format("peft/layer.py")
    assert str(cause.fix).startswith("It happens inside peft/layer.py:9 in run() (a library): call")
    assert "In code of your own: Send the index as data" in str(cause.fix)


def test_the_setting_of_a_library_that_is_known_is_named():
    cause = told("train.py", f"{PACKAGES}/peft/tuners/adalora/layer.py")
    end = "peft/tuners/adalora/layer.py:9 (a library): raise deltaT in AdaLoraConfig."
    assert str(cause.fix_in_short) == f"Inside {end}"
    assert "each budget is the k of a kthvalue" in str(cause.fix)


@pytest.mark.parametrize(
    "files",
    [
        ("train.py",),
        ("train.py", f"{PACKAGES}/torch/functional.py"),
        ("train.py", f"{PACKAGES}/peft/model.py", "net.py"),
        ("train.py", f"{PACKAGES}/torch/optim/optimizer.py", f"{PACKAGES}/timm/lamb.py"),
    ],
    ids=["own", "torch itself", "called back", "optimizer"],
)
def test_other_code_keeps_its_advice(files):
    assert str(told(*files).fix).startswith("Send the index as data")


def picked(rows: int, file: str) -> str:
    """Elements that whole numbers pick in a file, as a mask's places."""
    at = f'metadata={{op_type="aten__index" source_file="{file}" source_line=9}}'
    return f"""HloModule picked

ENTRY main {{
  x = f32[24,8] parameter(0)
  i = s64[{rows},2] parameter(1), {at}
  ROOT g = f32[{rows}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0,1}},
    start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}, {at}
}}
"""


@pytest.mark.parametrize(
    ("file", "is_optimizer"),
    [(f"{PACKAGES}/torch/optim/rprop.py", True), ("train.py", False)],
)
def test_a_mask_of_an_optimizer_is_not_the_users_to_rewrite(file, is_optimizer):
    found = explain_modules(*(read_module(picked(rows, file)) for rows in (5, 9)))
    told = str(found.verdict.fix)
    assert ("take another optimizer (Adam, RMSprop)" in told) == is_optimizer
    assert ("torch.where" in told) != is_optimizer
