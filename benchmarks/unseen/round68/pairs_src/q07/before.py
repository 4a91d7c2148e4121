"""Coral texture grown by a neural cellular automaton."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met

CH = 8


class Perceive(nn.Module):
    def __init__(self):
        super().__init__()
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        sx = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        lap = torch.tensor([[1.0, 2.0, 1.0], [2.0, -12.0, 2.0], [1.0, 2.0, 1.0]]) / 16
        bank = torch.stack([ident, sx, sx.t(), lap])[:, None]
        self.register_buffer("bank", bank.repeat(CH, 1, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.bank, padding=1, groups=CH)


class Automaton(nn.Module):
    def __init__(self, hidden=20, fire_rate=0.5):
        super().__init__()
        self.perceive = Perceive()
        self.w1 = nn.Conv2d(4 * CH, hidden, 1)
        self.w2 = nn.Conv2d(hidden, CH, 1, bias=False)
        nn.init.normal_(self.w2.weight, std=0.02)
        self.fire_rate = fire_rate

    def forward(self, x):
        dx = self.w2(F.relu(self.w1(self.perceive(x))))
        fire = (torch.rand_like(x[:, :1]) < self.fire_rate).to(x.dtype)
        return x + dx * fire


class Patches(nn.Module):
    """Frozen random filters, their Gram matrices are the target."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 10, 3, stride=2)
        self.c2 = nn.Conv2d(10, 14, 3)
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, img):
        grams = []
        h = img
        for c in (self.c1, self.c2):
            h = F.leaky_relu(c(h), 0.1)
            f = h.flatten(2)
            grams.append(f @ f.transpose(1, 2) / f.shape[-1])
        return grams


def overflow(x):
    return (x - x.clamp(-1.0, 1.0)).abs().mean()


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    ca = Automaton().to(device)
    feats = Patches().to(device)
    target = [g.detach() for g in feats(torch.rand(1, 3, 20, 20).to(device))]
    pool = torch.rand(16, CH, 20, 20) * 0.1
    opt = torch.optim.Adam(ca.parameters(), lr=1e-3, betas=(0.9, 0.95))
    torch_xla.sync()
    for step in range(4):
        pick = torch.randperm(16)[:3]
        x = pool[pick].to(device)
        opt.zero_grad()
        for _ in range(4):
            x = ca(x)
        loss = sum(F.mse_loss(g, t.expand_as(g)) for g, t in zip(feats(x[:, :3]), target)) + overflow(x)
        loss.backward()
        for p in ca.parameters():
            p.grad /= p.grad.norm() + 1e-8
        opt.step()
        torch_xla.sync()
        pool[pick] = x.detach().cpu()
        print(step, met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
