import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Bird-call tagging: head first, then the trunk is thawed from the top in two stages.
MELS, FRAMES, SPECIES = 24, 40, 6
BATCH = 12
STEPS = 66
THAW = {0: ("head",), 12: ("head", "block2"), 22: ("head", "block2", "block1")}
LR = {"head": 5e-3, "block2": 2e-3, "block1": 5e-4}
MIXUP_FROM = 6
EVAL_EVERY = 22


class Recordings:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        song = np.random.default_rng(100)
        self.low = song.uniform(2, 14, size=SPECIES)
        self.sweep = song.uniform(-0.2, 0.3, size=SPECIES)
        self.rate = song.uniform(0.3, 1.2, size=SPECIES)

    def clip(self):
        r = self.rng
        t = np.arange(FRAMES)
        spec = r.normal(-1.0, 0.3, size=(MELS, FRAMES))
        present = r.random(SPECIES) < 0.25
        for s in np.flatnonzero(present):
            centre = self.low[s] + self.sweep[s] * t + r.normal(0, 0.4)
            gate = (np.sin(self.rate[s] * t + r.uniform(0, 6)) > 0) * r.uniform(0.8, 2.0)
            spec += gate * np.exp(-0.5 * (np.arange(MELS)[:, None] - centre) ** 2)
        return spec.astype(np.float32), present.astype(np.float32)

    def batch(self, n):
        x, y = zip(*(self.clip() for _ in range(n)))
        return torch.from_numpy(np.stack(x)), torch.from_numpy(np.stack(y))


class TCBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv1d(i, o, 3, padding=1)
        self.norm = nn.BatchNorm1d(o)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = TCBlock(MELS, 16)
        self.block2 = TCBlock(16, 16)
        self.head = nn.Linear(32, SPECIES)

    def forward(self, x):
        h = self.block2(F.avg_pool1d(self.block1(x), 2))
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


class Augment:
    """Mixup plus one masked time band per clip."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.frames = np.arange(FRAMES)
        self.device = device

    def __call__(self, x, y, mix):
        start = self.rng.integers(0, FRAMES - 8, size=(x.size(0), 1, 1))
        width = self.rng.integers(2, 8, size=start.shape)
        band = (self.frames >= start) & (self.frames < start + width)
        x = torch.where(torch.from_numpy(band).to(self.device), x.mean(), x)
        if mix:
            lam = float(self.rng.beta(0.4, 0.4))
            order = torch.from_numpy(self.rng.permutation(x.size(0))).to(x.device)
            x = lam * x + (1 - lam) * x[order]
            y = lam * y + (1 - lam) * y[order]
        return x, y


def thaw(model, names, opt):
    known = {g["name"] for g in opt.param_groups} if opt else set()
    for name, module in model.named_children():
        on = name in names
        module.requires_grad_(on)
        module.train(on)
        if on and opt is not None and name not in known:
            opt.add_param_group({"params": list(module.parameters()), "lr": LR[name], "name": name})


@torch.no_grad()
def average_precision(model, batches):
    modes = {m: m.training for m in model.modules()}
    model.eval()
    scores, truth = [], []
    for x, y in batches:
        scores.append(torch.sigmoid(model(x)).cpu())
        truth.append(y.cpu())
    for m, mode in modes.items():
        m.training = mode
    s, t = torch.cat(scores), torch.cat(truth)
    order = s.argsort(0, descending=True)
    hit = t.gather(0, order)
    prec = hit.cumsum(0) / torch.arange(1, len(s) + 1)[:, None]
    return ((prec * hit).sum(0) / hit.sum(0).clamp(min=1)).mean().item()


def main():
    torch.manual_seed(27)
    device = xm.xla_device()
    data, val = Recordings(seed=28), Recordings(seed=29)
    val_batches = [tuple(t.to(device) for t in val.batch(n)) for n in (16, 16, 10)]
    augment = Augment(seed=30, device=device)
    model = Tagger().to(device)
    thaw(model, THAW[0], None)
    opt = torch.optim.AdamW([{"params": list(model.head.parameters()), "lr": LR["head"], "name": "head"}])
    xm.mark_step()

    for step in range(STEPS):
        if step in THAW and step > 0:
            thaw(model, THAW[step], opt)
        x, y = (t.to(device) for t in data.batch(BATCH))
        x, y = augment(x, y, mix=step >= MIXUP_FROM)
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for g in opt.param_groups:
            g["lr"] = LR[g["name"]] * (1.0 - step / STEPS)
        xm.mark_step()
        if (step + 1) % EVAL_EVERY == 0:
            ap = average_precision(model, val_batches)
            print(f"step {step + 1} groups {len(opt.param_groups)} loss {loss.item():.4f} mAP {ap:.3f}")


if __name__ == "__main__":
    main()
