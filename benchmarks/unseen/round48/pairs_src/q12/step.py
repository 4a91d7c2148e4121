"""Momentum contrast on EEG windows: 1-d conv encoder, key encoder by EMA, queue of negatives.

Run: XLA_HLO_DEBUG=1 XLA_IR_DEBUG=1 PJRT_DEVICE=CPU python step.py
Writes a.hlo (step 2) and b.hlo (step 3) of the same run.
"""
import copy
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
CHANNELS, LENGTH, WIDTH, DIM = 6, 48, 12, 16
BATCH, QUEUE, TEMPERATURE, MOMENTUM = 8, 40, 0.07, 0.99


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 5, stride=stride, padding=2)
        self.norm = nn.GroupNorm(3, c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride, bias=False)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x))) + self.skip(x)


class EEGEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = ConvBlock(CHANNELS, WIDTH, 2)
        self.block2 = ConvBlock(WIDTH, WIDTH, 2)
        self.proj1 = nn.Linear(WIDTH, WIDTH)
        self.proj2 = nn.Linear(WIDTH, DIM)

    def forward(self, x):
        h = self.block2(self.block1(x)).mean(dim=-1)
        return F.normalize(self.proj2(F.relu(self.proj1(h))), dim=1)


class MoCo(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder_q = EEGEncoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(QUEUE, DIM), dim=1))
        self.queue_ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(MOMENTUM).add_(q, alpha=1 - MOMENTUM)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.queue[self.queue_ptr:self.queue_ptr + n] = keys
        self.queue_ptr = (self.queue_ptr + n) % QUEUE

    def forward(self, view_q, view_k):
        q = self.encoder_q(view_q)
        with torch.no_grad():
            self.momentum_update()
            k = self.encoder_k(view_k)
        pos = (q * k).sum(dim=1, keepdim=True)
        neg = q @ self.queue.clone().t()
        logits = torch.cat([pos, neg], dim=1) / TEMPERATURE
        labels = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, labels)
        self.enqueue(k)
        return loss


def augment(x, gen):
    scale = 1 + 0.1 * torch.randn(x.shape[0], x.shape[1], 1, generator=gen)
    return x * scale + 0.05 * torch.randn(x.shape, generator=gen)


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.encoder_q.parameters():
        out.extend([p, p.grad])
        buf = opt.state[p].get("momentum_buffer")
        if buf is not None:
            out.append(buf)
    out.extend(model.encoder_k.parameters())
    out.extend(model.buffers())
    return out


def main():
    torch.manual_seed(12)
    device = torch_xla.device()
    model = MoCo().to(device)
    opt = torch.optim.SGD(
        model.encoder_q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4
    )
    torch_xla.sync()
    gen = torch.Generator().manual_seed(7)
    for step in range(1, 5):
        x = torch.randn(BATCH, CHANNELS, LENGTH, generator=gen)
        view_q, view_k = augment(x, gen).to(device), augment(x, gen).to(device)
        opt.zero_grad()
        loss = model(view_q, view_k)
        loss.backward()
        opt.step()
        if step in (2, 3):
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss))
            name = {2: "a.hlo", 3: "b.hlo"}[step]
            with open(os.path.join(HERE, name), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, model.queue_ptr, loss.item())


if __name__ == "__main__":
    main()
