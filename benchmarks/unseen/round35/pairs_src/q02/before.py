"""Learned particle simulator (encode - process - decode) on a directed k-nearest-neighbour graph."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_PART, KNN, HIST, DIM = 20, 4, 3, 2
HIDDEN, ROUNDS = 16, 2


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, n_out))


class Processor(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge_fn = mlp(3 * HIDDEN, HIDDEN)
        self.node_fn = mlp(2 * HIDDEN, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, h, e, senders, receivers):
        msg = self.edge_fn(torch.cat([h[senders], h[receivers], e], dim=-1))
        total = torch.zeros_like(h).index_add(0, receivers, msg)
        count = torch.zeros(h.shape[0], 1, device=h.device)
        count = count.index_add(0, receivers, torch.ones(msg.shape[0], 1, device=h.device))
        agg = total / count.clamp(min=1.0)
        h = h + self.norm(self.node_fn(torch.cat([h, agg], dim=-1)))
        return h, e + msg


class Simulator(nn.Module):
    def __init__(self):
        super().__init__()
        self.node_enc = mlp(HIST * DIM, HIDDEN)
        self.edge_enc = mlp(DIM + 1, HIDDEN)
        self.process = Processor()          # weights shared over the rounds
        self.dec = mlp(HIDDEN, DIM)

    def forward(self, vel, pos, edges):
        senders, receivers = edges[0], edges[1]
        disp = pos[senders] - pos[receivers]
        dist = disp.pow(2).sum(-1, keepdim=True).add(1e-8).sqrt()
        e = self.edge_enc(torch.cat([disp, dist], dim=-1))
        h = self.node_enc(vel.flatten(1))
        for _ in range(ROUNDS):
            h, e = self.process(h, e, senders, receivers)
        return self.dec(h)


def train_step(model, opt, batch):
    vel, pos, edges, acc = batch
    pred = model(vel, pos, edges)
    loss = F.smooth_l1_loss(pred, acc, beta=0.1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def make_batch(gen, device):
    pos = torch.rand(N_PART, DIM, generator=gen)
    vel = torch.randn(N_PART, HIST, DIM, generator=gen) * 0.1
    acc = torch.randn(N_PART, DIM, generator=gen) * 0.05
    d = torch.cdist(pos, pos) + torch.eye(N_PART) * 1e3
    nbr = d.topk(KNN, largest=False).indices           # each particle listens to its KNN nearest
    recv = torch.arange(N_PART).repeat_interleave(KNN)
    edges = torch.stack([nbr.flatten(), recv])
    return tuple(t.to(device) for t in (vel, pos, edges, acc))


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out += [p.data, p.grad, opt.state[p]["square_avg"]]
    return out


def run(steps, dump_at=None, path=None):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = Simulator().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        batch = make_batch(gen, device)
        loss = train_step(model, opt, batch)
        if step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss)))
        torch_xla.sync()
        hist.append(loss.item())
    return hist


if __name__ == "__main__":
    print(run(3, 2, sys.argv[1]))
