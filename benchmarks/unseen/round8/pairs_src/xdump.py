"""Small helper shared by the torch_xla sources: device, seeds, dump of a traced step."""
import os
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm


def device():
    return torch_xla.device()


def seed(s):
    torch.manual_seed(s)
    xm.set_rng_state(s)


def sync():
    torch_xla.sync()
    xm.wait_device_ops()


def pending(t):
    text = torch_xla._XLAC._get_xla_tensors_text([t])
    nodes = [l for l in text.splitlines() if " = " in l]
    return not (len(nodes) == 1 and "xla::device_data" in nodes[0])


def state_of(opt, named_params):
    out = {}
    for n, p in named_params:
        for k, v in sorted(opt.state.get(p, {}).items()):
            if torch.is_tensor(v) and v.device.type == "xla":
                out["opt.%s.%s" % (k, n)] = v
    return out


def dump(named):
    """named: ordered {name: live xla tensor}; what is not pending would not be lowered by a sync."""
    items = [(n, t.detach()) for n, t in named.items() if pending(t)]
    text = torch_xla._XLAC._get_xla_tensors_hlo([t for _, t in items])
    with open(os.environ["HLO_OUT"], "w") as f:
        f.write(text)
    sync()
    np.savez(os.environ["NPZ_OUT"], **{n: t.cpu().float().numpy() for n, t in items})
