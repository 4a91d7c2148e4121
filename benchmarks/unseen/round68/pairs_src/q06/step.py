"""Grouping calorimeter hits into showers with slot attention."""
import contextlib

import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met


class SlotAttention(nn.Module):
    def __init__(self, dim, n_slots, iters):
        super().__init__()
        self.iters, self.scale = iters, dim ** -0.5
        self.start = nn.Parameter(torch.randn(1, n_slots, dim))
        self.norm_in, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.q = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)

    def forward(self, x):
        x = self.norm_in(x)
        k, v = self.k(x), self.v(x)
        slots = self.start.expand(x.shape[0], -1, -1)
        b, n, d = slots.shape
        for _ in range(self.iters):
            q = self.q(self.norm_slots(slots)) * self.scale
            attn = (k @ q.transpose(1, 2)).softmax(dim=-1) + 1e-6
            w = attn / attn.sum(dim=1, keepdim=True)
            upd = w.transpose(1, 2) @ v
            slots = self.gru(upd.reshape(-1, d), slots.reshape(-1, d)).view(b, n, d)
        return slots, attn


class ShowerNet(nn.Module):
    def __init__(self, dim=12, n_slots=5):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(4, dim), nn.GELU(), nn.Linear(dim, dim))
        self.slots = SlotAttention(dim, n_slots, iters=2)
        self.decode = nn.Linear(dim, 5)

    def forward(self, hits):
        s, attn = self.slots(self.embed(hits))
        out = self.decode(s)
        return out[..., :4], out[..., 4], attn


@contextlib.contextmanager
def tap(module, store):
    handle = module.register_forward_hook(lambda m, i, o: store.append(o[1].detach()))
    try:
        yield store
    finally:
        handle.remove()


def shower_loss(centers, presence, attn, hits, energy):
    d = (hits[:, :, None] - centers[:, None]).abs().sum(-1)
    pull = (attn * d).sum(-1)
    caught = (attn * energy[..., None]).sum(1)
    share = caught / caught.sum(1, keepdim=True)
    return (energy * pull).mean() + nn.functional.binary_cross_entropy_with_logits(presence, share.detach())


def events(n, gen):
    for _ in range(n):
        hits = torch.randn(6, 14, 4, generator=gen)
        yield hits, torch.rand(6, 14, generator=gen)


def train(steps=9, report_every=4):
    torch.manual_seed(6)
    gen = torch.Generator().manual_seed(8)
    device = torch_xla.device()
    net = ShowerNet().to(device)
    opt = torch.optim.Adagrad(net.parameters(), lr=1e-2)
    torch_xla.sync()
    maps = []
    for step, (hits, energy) in enumerate(events(steps, gen)):
        hits, energy = hits.to(device), energy.to(device)
        watch = tap(net.slots, maps) if step % report_every == 0 else contextlib.nullcontext()
        opt.zero_grad()
        with watch:
            centers, presence, attn = net(hits)
        loss = shower_loss(centers, presence, attn, hits, energy)
        loss.backward()
        opt.step()
        del centers, presence, attn, loss
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile") or 0)
    sharp = [m.max(-1).values.mean() for m in maps]
    print("sharpness", [round(s.item(), 3) for s in sharp])


if __name__ == "__main__":
    train()
