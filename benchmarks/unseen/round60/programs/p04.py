import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Indoor scene understanding on rendered 4x4 patches: segmentation, depth, normals and edges
# from one encoder, conflicting gradients projected (PCGrad).
SIZE, PATCH = 16, 4
N_CLASSES = 6
BATCH = 6
STEPS = 30
TASKS = ("segm", "depth", "normal", "edge")


def render(rng, n):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE - 0.5
    rgb = np.zeros((n, 3, SIZE, SIZE), np.float32)
    out = {"segm": np.zeros((n, SIZE, SIZE), np.int64), "depth": np.zeros((n, 1, SIZE, SIZE), np.float32),
           "normal": np.zeros((n, 3, SIZE, SIZE), np.float32), "edge": np.zeros((n, 1, SIZE, SIZE), np.float32)}
    for b in range(n):
        depth = np.full((SIZE, SIZE), 3.0)
        normal = np.zeros((3, SIZE, SIZE))
        normal[2] = 1.0
        label = np.zeros((SIZE, SIZE), np.int64)
        for _ in range(rng.integers(2, 5)):
            cy, cx, h, w = rng.uniform([-0.4, -0.4, 0.1, 0.1], [0.4, 0.4, 0.35, 0.35])
            inside = (np.abs(yy - cy) < h) & (np.abs(xx - cx) < w)
            slope = rng.uniform(-1, 1, size=2)
            plane = rng.uniform(1.0, 2.5) + slope[0] * (yy - cy) + slope[1] * (xx - cx)
            front = inside & (plane < depth)
            depth[front] = plane[front]
            nrm = np.array([slope[1], slope[0], 1.0])
            normal[:, front] = (nrm / np.linalg.norm(nrm))[:, None]
            label[front] = rng.integers(1, N_CLASSES)
        edge = np.zeros((SIZE, SIZE))
        edge[:, 1:] += label[:, 1:] != label[:, :-1]
        edge[1:] += label[1:] != label[:-1]
        shade = 0.4 + 0.6 * normal[2]
        tint = np.stack([np.sin(label), np.cos(label), label / N_CLASSES])
        rgb[b] = tint * shade + 0.05 * rng.normal(size=tint.shape)
        out["segm"][b], out["depth"][b, 0] = label, depth
        out["normal"][b], out["edge"][b, 0] = normal, edge > 0
    return patches(rgb), {t: patches(v if v.ndim == 4 else v[:, None]) for t, v in out.items()}


def patches(a):
    """(n, c, H, W) -> (patches, c * PATCH * PATCH)"""
    n, c, h, w = a.shape
    a = a.reshape(n, c, h // PATCH, PATCH, w // PATCH, PATCH).transpose(0, 2, 4, 1, 3, 5)
    return np.ascontiguousarray(a.reshape(-1, c * PATCH * PATCH))


class Net(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        px = PATCH * PATCH
        self.encoder = nn.Sequential(nn.Linear(3 * px, ch), nn.ReLU(), nn.Linear(ch, ch), nn.ReLU())
        widths = {"segm": N_CLASSES * px, "depth": px, "normal": 3 * px, "edge": px}
        self.heads = nn.ModuleDict({t: nn.Linear(ch, widths[t]) for t in TASKS})

    def forward(self, x):
        h = self.encoder(x)
        return {t: head(h) for t, head in self.heads.items()}


def task_losses(out, tgt):
    return {
        "segm": F.cross_entropy(out["segm"].unflatten(1, (N_CLASSES, -1)), tgt["segm"]),
        "depth": F.smooth_l1_loss(out["depth"], tgt["depth"]),
        "normal": 1.0 - F.cosine_similarity(out["normal"].unflatten(1, (3, -1)),
                                            tgt["normal"].unflatten(1, (3, -1)), dim=1).mean(),
        "edge": F.binary_cross_entropy_with_logits(out["edge"], tgt["edge"]),
    }


class PCGrad:
    """Gradient surgery on the shared parameters; heads get their own gradient."""

    def __init__(self, opt, shared):
        self.opt = opt
        self.shared = list(shared)

    def _flat(self, loss):
        grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
        return torch.cat([g.reshape(-1) for g in grads])

    def _project(self, grads):
        merged = torch.zeros_like(grads[0])
        others = list(range(len(grads)))
        for i in range(len(grads)):
            g = grads[i]
            random.shuffle(others)
            for j in others:
                if j == i:
                    continue
                ref = grads[j]
                overlap = torch.dot(g, ref).clamp(max=0.0)
                g = g - overlap / (ref.dot(ref) + 1e-12) * ref
            merged = merged + g
        return merged / len(grads)

    def backward(self, losses):
        grads = [self._flat(losses[t]) for t in TASKS]
        self.opt.zero_grad()
        sum(losses[t] for t in TASKS).backward()
        merged = self._project(grads)
        at = 0
        for p in self.shared:
            n = p.numel()
            p.grad.copy_(merged[at:at + n].view_as(p))
            at += n

    def step(self):
        self.opt.step()


def main():
    random.seed(4)
    torch.manual_seed(4)
    rng = np.random.default_rng(8)
    device = xm.xla_device()
    model = Net().to(device)
    opt = PCGrad(torch.optim.Adam(model.parameters(), lr=2e-3), model.encoder.parameters())
    running = {t: torch.zeros((), device=device) for t in TASKS}
    xm.mark_step()

    for step in range(STEPS):
        rgb, tgt = render(rng, BATCH)
        x = torch.from_numpy(rgb).to(device)
        tgt = {t: torch.from_numpy(v).to(device) for t, v in tgt.items()}
        losses = task_losses(model(x), tgt)
        opt.backward(losses)
        opt.step()
        for t in TASKS:
            running[t].mul_(0.9).add_(losses[t].detach(), alpha=0.1)
        xm.mark_step()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1} " + " ".join(f"{t} {running[t].item():.3f}" for t in TASKS))


if __name__ == "__main__":
    main()
