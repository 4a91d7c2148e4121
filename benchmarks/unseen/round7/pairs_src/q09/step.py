import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def main(index):
    flag = os.environ["VARIANT"] == "1"
    torch.manual_seed(0)
    dev = torch_xla.device()
    world = xr.world_size()
    net = nn.Sequential(nn.Embedding(128, 32), nn.Flatten(), nn.Linear(320, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).to(dev)
    temp = nn.Parameter(torch.tensor(2.0).to(dev))
    params = list(net.parameters()) + [temp]
    a, b = torch.randint(0, 128, (8, 10)).to(dev), torch.randint(0, 128, (8, 10)).to(dev)
    mom = [torch.zeros_like(p) for p in params]
    torch_xla.sync()
    za, zb = F.normalize(net(a), dim=-1), F.normalize(net(b), dim=-1)
    sim = za @ zb.t() * temp.exp()
    lab = torch.arange(8, device=dev)
    loss = 0.5 * (F.cross_entropy(sim, lab) + F.cross_entropy(sim.t(), lab))
    loss.backward()
    groups = [[0, 1], [2, 3]] if flag else None
    grads = [p.grad for p in params]
    xm.all_reduce(xm.REDUCE_SUM, grads, scale=0.25, groups=groups)
    with torch.no_grad():
        for p, g, m in zip(params, grads, mom):
            m.mul_(0.9).add_(g)
            p.sub_(0.03 * m)
    outs = [loss] + params + mom
    txt = torch_xla._XLAC._get_xla_tensors_hlo(outs)
    if xr.global_ordinal() == 0:
        open(os.environ["OUT"], "w").write(txt)


if __name__ == "__main__":
    torch_xla.launch(main)
