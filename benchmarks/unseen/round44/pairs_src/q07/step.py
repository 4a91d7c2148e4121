"""Seq2seq forecast of loop-detector speeds on a small road graph (diffusion GRU
after DCRNN).  Adam, masked MAE.  Keeps the HLO of steps 3 and 4."""
import math
import random

import torch
import torch.nn as nn
import torch_xla

SENSORS, HIST, HORIZON, HID = 7, 2, 4, 8


class DiffusionGRUCell(nn.Module):
    def __init__(self, feat, hid):
        super().__init__()
        self.ru = nn.Linear(2 * (feat + hid), 2 * hid)
        self.cand = nn.Linear(2 * (feat + hid), hid)

    @staticmethod
    def diffuse(adj, x):
        return torch.cat([x, torch.einsum("ij,bjf->bif", adj, x)], dim=-1)

    def forward(self, adj, x, h):
        r, u = torch.sigmoid(self.ru(self.diffuse(adj, torch.cat([x, h], -1)))).chunk(2, -1)
        c = torch.tanh(self.cand(self.diffuse(adj, torch.cat([x, r * h], -1))))
        return u * h + (1 - u) * c


class TrafficSeq2Seq(nn.Module):
    def __init__(self, decay=6.0):
        super().__init__()
        self.enc = DiffusionGRUCell(1, HID)
        self.dec = DiffusionGRUCell(1, HID)
        self.out = nn.Linear(HID, 1)
        self.decay = decay

    def sampling_threshold(self, seen):
        return self.decay / (self.decay + math.exp(seen / self.decay))

    def forward(self, adj, hist, labels=None, seen=0):
        h = hist.new_zeros(hist.size(0), SENSORS, HID)
        for t in range(HIST):
            h = self.enc(adj, hist[:, t], h)
        x = hist.new_zeros(hist.size(0), SENSORS, 1)
        outs = []
        for t in range(HORIZON):
            h = self.dec(adj, x, h)
            y = self.out(h)
            outs.append(y)
            x = y
            if labels is not None and random.random() < self.sampling_threshold(seen):
                x = labels[:, t]
        return torch.stack(outs, dim=1)


def masked_mae(pred, label):
    mask = (label != 0).float()
    mask = mask / mask.mean()
    loss = (pred - label).abs() * mask
    return torch.where(torch.isnan(loss), torch.zeros_like(loss), loss).mean()


def main():
    dev = torch_xla.device()
    torch.manual_seed(73)
    random.seed(7)
    gen = torch.Generator().manual_seed(79)
    a = torch.rand(SENSORS, SENSORS, generator=gen)
    adj = (a / a.sum(1, keepdim=True)).to(dev)
    model = TrafficSeq2Seq().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-3)
    torch_xla.sync()
    for step in range(1, 7):
        hist = torch.randn(2, HIST, SENSORS, 1, generator=gen).to(dev)
        labels = torch.randn(2, HORIZON, SENSORS, 1, generator=gen)
        labels[torch.rand(labels.shape, generator=gen) < 0.1] = 0.0
        labels = labels.to(dev)
        pred = model(adj, hist, labels, seen=step)
        loss = masked_mae(pred, labels)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        live = [loss]
        for p in model.parameters():
            st = opt.state[p]
            live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
        text = torch_xla._XLAC._get_xla_tensors_hlo(live)
        if step in (3, 4):
            with open({3: "a.hlo", 4: "b.hlo"}[step], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item(), text.count(" = "))


if __name__ == "__main__":
    main()
