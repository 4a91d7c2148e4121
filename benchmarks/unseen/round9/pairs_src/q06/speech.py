import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS, FRAMES, VOCAB = 20, 48, 16


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        split = lambda y: y.view(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        w = (q @ k.transpose(-1, -2) / (d // self.h) ** 0.5).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = Attention(d, h)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class AcousticModel(nn.Module):
    def __init__(self, d=24, heads=4, depth=3, layerdrop=0.1):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv1d(MELS, d, 3, 2, 1), nn.GELU(), nn.Conv1d(d, d, 3, 2, 1), nn.GELU())
        self.pos = nn.Conv1d(d, d, 5, padding=2, groups=4)
        self.blocks = nn.ModuleList([Block(d, heads) for _ in range(depth)])
        self.layerdrop = layerdrop
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, mel):
        x = self.sub(mel)
        x = (x + F.gelu(self.pos(x))).transpose(1, 2)
        for block in self.blocks:
            dropout_probability = np.random.random()
            if not self.training or dropout_probability > self.layerdrop:
                x = block(x)
        return self.head(self.norm(x))


def frame_targets(mel):
    energy = mel.mean(1)[:, ::4]
    edges = torch.linspace(-0.5, 0.5, VOCAB - 1)
    return torch.bucketize(energy, edges)


class NoamLR:
    def __init__(self, opt, d, warmup, scale=0.3):
        self.opt, self.d, self.warmup, self.scale, self.n = opt, d, warmup, scale, 0

    def step(self):
        self.n += 1
        lr = self.scale * self.d ** -0.5 * min(self.n ** -0.5, self.n * self.warmup ** -1.5)
        for g in self.opt.param_groups:
            g["lr"] = lr
        return lr


def run(steps=14, batch=6):
    torch.manual_seed(1)
    np.random.seed(1)
    dev = torch_xla.device()
    model = AcousticModel().to(dev).train()
    opt = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    sched = NoamLR(opt, 24, 40)
    for i in range(steps):
        mel = torch.randn(batch, MELS, FRAMES)
        tgt = frame_targets(mel).to(dev)
        lr = sched.step()
        logits = model(mel.to(dev))
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), tgt.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        if i % 6 == 0:
            print("step %d lr %.5f ce %.4f" % (i, lr, loss.item()))


if __name__ == "__main__":
    run()
