"""Both versions from equal weights, on the CPU in float64 and float32."""
import copy

import torch

import train_after
import train_before


def convert(sd):
    out = {}
    for k, v in sd.items():
        if ".q_proj." in k:
            parts = [sd[k.replace("q_proj", n)] for n in ("q_proj", "k_proj", "v_proj")]
            out[k.replace("q_proj", "qkv")] = torch.cat(parts, 0)
        elif ".k_proj." in k or ".v_proj." in k:
            continue
        else:
            out[k] = v.clone()
    return out


for dtype in (torch.float64, torch.float32):
    torch.manual_seed(0)
    a = train_before.Forecaster(**train_before.SHAPE).to(dtype)
    b = train_after.Forecaster(**train_after.SHAPE).to(dtype)
    b.load_state_dict(convert(copy.deepcopy(a.state_dict())))
    oa, ob = train_before.make_optimizer(a), train_after.make_optimizer(b)
    worst = 0.0
    for x, y in train_before.load_series(8):
        la = train_before.train_step(a, oa, x.to(dtype), y.to(dtype))
        lb = train_after.train_step(b, ob, x.to(dtype), y.to(dtype))
        worst = max(worst, abs(la.item() - lb.item()))
    ca, cb = convert(a.state_dict()), b.state_dict()
    par = max((ca[k] - cb[k]).abs().max().item() for k in cb)
    print(dtype, "worst loss difference", worst, "worst parameter difference", par)
