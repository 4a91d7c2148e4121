"""Contrastive pretraining of ECG beats with a momentum encoder and a key bank."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEADS, LENGTH, BATCH, DIM, BANK = 2, 48, 8, 12, 32
TEMP, EMA = 0.2, 0.99


class BeatEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(LEADS, 8, 7, stride=2, padding=3)
        self.gn1 = nn.GroupNorm(2, 8)
        self.conv2 = nn.Conv1d(8, 16, 5, stride=2, padding=2)
        self.gn2 = nn.GroupNorm(4, 16)
        self.proj = nn.Linear(16, DIM)

    def forward(self, x):
        x = F.leaky_relu(self.gn1(self.conv1(x)), 0.1)
        x = F.leaky_relu(self.gn2(self.conv2(x)), 0.1)
        return F.normalize(self.proj(x.amax(-1)), dim=-1)


class BankContrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = BeatEncoder()
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad_(False)
        self.register_buffer("bank", F.normalize(torch.randn(BANK, DIM), dim=-1))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for pq, pk in zip(self.q.parameters(), self.k.parameters()):
            pk.mul_(EMA).add_(pq, alpha=1.0 - EMA)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.bank[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % BANK

    def forward(self, a, b):
        q = self.q(a)
        with torch.no_grad():
            self.momentum_update()
            k = self.k(b)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.bank.clone().t()
        logits = torch.cat([pos, neg], dim=1) / TEMP
        target = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        return loss


def live(model, opt):
    out = list(model.parameters()) + list(model.buffers())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    for st in opt.state.values():
        out += [v for v in st.values() if torch.is_tensor(v)]
    return out


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path_a, path_b):
    torch.manual_seed(12)
    device = torch_xla.device()
    model = BankContrast().to(device)
    opt = torch.optim.RMSprop(model.q.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(5)
    torch_xla.sync()
    for step in range(5):
        beat = torch.randn(BATCH, LEADS, LENGTH, generator=gen)
        a = (beat + 0.1 * torch.randn(beat.shape, generator=gen)).to(device)
        b = (beat + 0.1 * torch.randn(beat.shape, generator=gen)).to(device)
        opt.zero_grad()
        loss = model(a, b)
        loss.backward()
        opt.step()
        if step == 2:
            dump(path_a, live(model, opt) + [loss])
        if step == 3:
            dump(path_b, live(model, opt) + [loss])
        torch_xla.sync()
        print(step, round(float(loss), 5))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
