"""MixMatch for bird-call log-mel patches: a few labelled clips, many unlabelled field recordings."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_SPECIES = 6
N_MELS, N_FRAMES = 20, 24


def synth_calls(n, rng, labelled=True):
    """Chirps with a species dependent sweep, over pink-ish background noise."""
    y = rng.integers(0, N_SPECIES, size=n)
    t = np.linspace(0.0, 1.0, N_FRAMES)
    mel = np.arange(N_MELS)[:, None]
    x = rng.normal(0, 0.35, size=(n, 1, N_MELS, N_FRAMES)).astype(np.float32)
    for i, c in enumerate(y):
        centre = 3 + 2.5 * c + 3.0 * np.sin(2 * math.pi * (1 + c % 3) * (t + rng.uniform(0, 0.2)))
        x[i, 0] += np.exp(-0.5 * ((mel - centre[None]) / 1.2) ** 2)
    return torch.from_numpy(x), (torch.from_numpy(y) if labelled else None)


class CallNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.head = nn.Linear(2 * width * (N_MELS // 2), N_SPECIES)

    def forward(self, x):
        h = F.leaky_relu(self.stem(x), 0.1)
        h = F.leaky_relu(self.down(h), 0.1)
        return self.head(h.mean(dim=3).flatten(1))


class MixMatch:
    def __init__(self, model, total_steps, alpha=0.75, t_start=0.95, t_end=0.45, lambda_u=10.0, k=2):
        self.model = model
        self.total_steps = total_steps
        self.alpha = alpha
        self.t_start, self.t_end = t_start, t_end
        self.lambda_u = lambda_u
        self.k = k
        self.rng = np.random.default_rng(11)

    def temperature(self, step):
        frac = min(1.0, step / self.total_steps)
        return self.t_end + 0.5 * (self.t_start - self.t_end) * (1.0 + math.cos(math.pi * frac))

    def rampup(self, step):
        return self.lambda_u * min(1.0, (step + 1) / (0.4 * self.total_steps))

    @torch.no_grad()
    def guess_labels(self, views, step):
        self.model.eval()
        logits = self.model(torch.cat(views, dim=0))
        probs = logits.softmax(dim=-1).view(len(views), -1, N_SPECIES).mean(dim=0)
        self.model.train()
        sharp = probs ** (1.0 / self.temperature(step))
        return sharp / sharp.sum(dim=-1, keepdim=True)

    def mix(self, x, y):
        lam = float(self.rng.beta(self.alpha, self.alpha))
        lam = max(lam, 1.0 - lam)
        perm = torch.from_numpy(self.rng.permutation(x.shape[0])).to(x.device)
        return lam * x + (1.0 - lam) * x[perm], lam * y + (1.0 - lam) * y[perm]

    def loss(self, xl, yl, views, step):
        target_u = self.guess_labels(views, step)
        target_l = F.one_hot(yl, N_SPECIES).float()
        x = torch.cat([xl, *views], dim=0)
        y = torch.cat([target_l] + [target_u] * len(views), dim=0)
        x, y = self.mix(x, y)
        logits = self.model(x)
        n = xl.shape[0]
        loss_l = -(y[:n] * F.log_softmax(logits[:n], dim=-1)).sum(dim=-1).mean()
        loss_u = F.mse_loss(logits[n:].softmax(dim=-1), y[n:])
        return loss_l + self.rampup(step) * loss_u, loss_l, loss_u


def augment(x, rng):
    """Time roll and frequency mask, done on the host while the device works."""
    x = torch.roll(x, int(rng.integers(-4, 5)), dims=-1).clone()
    f0 = int(rng.integers(0, N_MELS - 3))
    x[:, :, f0:f0 + 3] = 0.0
    return x + 0.05 * torch.from_numpy(rng.normal(size=tuple(x.shape)).astype(np.float32))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=15)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-2)
    args = ap.parse_args()

    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()

    x_lab, y_lab = synth_calls(48, rng)
    x_unl, _ = synth_calls(256, rng, labelled=False)
    x_val, y_val = synth_calls(64, rng)
    x_val, y_val = x_val.to(device), y_val.to(device)

    model = CallNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    algo = MixMatch(model, args.steps)

    for step in range(args.steps):
        il = torch.from_numpy(rng.choice(len(x_lab), args.batch, replace=False))
        iu = torch.from_numpy(rng.choice(len(x_unl), args.batch, replace=False))
        xl = augment(x_lab[il], rng).to(device)
        yl = y_lab[il].to(device)
        views = [augment(x_unl[iu], rng).to(device) for _ in range(algo.k)]

        optimizer.zero_grad()
        loss, loss_l, loss_u = algo.loss(xl, yl, views, step)
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if (step + 1) % 5 == 0:
            model.eval()
            with torch.no_grad():
                acc = (model(x_val).argmax(dim=-1) == y_val).float().mean()
            model.train()
            xm.master_print(f"step {step + 1:3d} loss {loss.item():.4f} (lab {loss_l.item():.3f} "
                            f"unl {loss_u.item():.4f}) val acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
