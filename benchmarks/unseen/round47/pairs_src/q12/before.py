"""Mesh simulator for shallow water: encode, message passing, decode (one-step rollout).

The mesh is fixed, its edges are (sender, receiver) pairs; the network predicts the
normalised change of height and velocity per node.
"""
import os
import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NODES = 20
EDGES = 48


def mlp(cin, cout, hidden=16, norm=True):
    layers = [nn.Linear(cin, hidden), nn.SiLU(), nn.Linear(hidden, cout)]
    if norm:
        layers.append(nn.LayerNorm(cout))
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge_fn = mlp(3 * dim, dim)
        self.node_fn = mlp(2 * dim, dim)

    def forward(self, x, e, send, recv):
        m = self.edge_fn(torch.cat([e, x[send], x[recv]], dim=-1))
        pooled = torch.zeros_like(x).index_add(0, recv, m)
        x = x + self.node_fn(torch.cat([x, pooled], dim=-1))
        return x, e + m


class Simulator(nn.Module):
    def __init__(self, dim=8, depth=2):
        super().__init__()
        self.enc_node = mlp(5, dim)
        self.enc_edge = mlp(3, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.dec = mlp(dim, 3, norm=False)
        self.register_buffer("out_scale", torch.tensor([0.5, 0.2, 0.2]))

    def forward(self, state, kind, pos, send, recv):
        rel = pos[recv] - pos[send]
        dist = rel.square().sum(-1, keepdim=True).sqrt()
        e = self.enc_edge(torch.cat([rel, dist], dim=-1))
        x = self.enc_node(torch.cat([state, kind], dim=-1))
        for block in self.blocks:
            x, e = block(x, e, send, recv)
        return self.dec(x)


def train_step(model, opt, batch):
    state, target, kind, pos, send, recv = batch
    opt.zero_grad()
    delta = model(state, kind, pos, send, recv)
    want = (target - state) / model.out_scale
    inside = kind[:, :1]
    err = (delta - want).square().sum(dim=-1, keepdim=True)
    loss = (err * inside).sum() / inside.sum()
    loss.backward()
    opt.step()
    return loss


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
    for p in model.parameters():
        state = opt.state.get(p, {})
        out.extend(state[k] for k in sorted(state) if torch.is_tensor(state[k]))
    return [t for t in out if t.device.type == "xla"]


def make_batch(dev, pos, kind, send, recv):
    state = torch.randn(NODES, 3).to(dev)
    target = state + 0.1 * torch.randn(NODES, 3).to(dev)
    return state, target, kind, pos, send, recv


def main(path):
    torch.manual_seed(12)
    dev = xm.xla_device()
    model = Simulator().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    pos = torch.rand(NODES, 2).to(dev)
    flag = (torch.rand(NODES, 1) > 0.2).float()
    kind = torch.cat([flag, 1 - flag], dim=-1).to(dev)
    send = torch.randint(0, NODES, (EDGES,)).to(dev)
    recv = torch.randint(0, NODES, (EDGES,)).to(dev)
    xm.mark_step()
    for it in range(3):
        batch = make_batch(dev, pos, kind, send, recv)
        loss = train_step(model, opt, batch)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss))
            with open(path, "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "a.hlo"))
