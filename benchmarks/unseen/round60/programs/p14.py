"""Dense multi-task scene model (segmentation, depth, edges) with projected conflicting gradients."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIDE, BATCH, SEG = 16, 8, 5


def make_scene(gen):
    """Each scene is a height field of a few bumps; all targets derive from it."""
    axis = torch.linspace(-1, 1, SIDE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    c = torch.rand(BATCH, 4, 3, generator=gen) * 2 - 1
    d2 = (xx - c[..., 0, None, None]) ** 2 + (yy - c[..., 1, None, None]) ** 2
    bumps = torch.exp(-6 * d2) * (c[..., 2, None, None] + 1.2)
    depth = bumps.sum(1)
    seg = ((depth / 2.4).clamp(0, 0.999) * SEG).long()
    gx = F.pad(depth[:, :, 1:] - depth[:, :, :-1], (0, 1))
    gy = F.pad(depth[:, 1:] - depth[:, :-1], (0, 0, 0, 1))
    normals = F.normalize(torch.stack([-gx, -gy, torch.full_like(gx, 0.2)], 1), dim=1)
    edges = ((gx.abs() + gy.abs()) > 0.25).float()
    shade = (normals * torch.tensor([0.4, 0.3, 0.8]).view(1, 3, 1, 1)).sum(1)
    image = torch.stack([shade, depth, shade * depth], 1) + 0.05 * torch.randn(BATCH, 3, SIDE, SIDE, generator=gen)
    return image, {"seg": seg, "depth": depth, "edges": edges}


class SceneNet(nn.Module):
    HEADS = {"seg": SEG, "depth": 1, "edges": 1}

    def __init__(self, width=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(3, width), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.GroupNorm(3, width), nn.SiLU(),
        )
        self.heads = nn.ModuleDict({k: nn.Conv2d(width, n, 1) for k, n in self.HEADS.items()})

    def forward(self, x):
        z = self.encoder(x)
        return {k: head(z) for k, head in self.heads.items()}


def task_losses(out, target):
    return {
        "seg": F.cross_entropy(out["seg"], target["seg"]),
        "depth": F.smooth_l1_loss(out["depth"].squeeze(1), target["depth"]),
        "edges": F.binary_cross_entropy_with_logits(out["edges"].squeeze(1), target["edges"]),
    }


class PCGrad:
    """Wraps an optimizer; each task gradient loses its component against any task that it conflicts with."""

    def __init__(self, optimizer, shared, specific):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.specific = specific

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.optimizer.step()

    @staticmethod
    def flatten(grads):
        return torch.cat([g.reshape(-1) for g in grads])

    def project(self, grads):
        projected = [g.clone() for g in grads]
        others = list(grads)
        for g_i in projected:
            random.shuffle(others)
            for g_j in others:
                dot = torch.dot(g_i, g_j)
                g_i.sub_(dot.clamp(max=0.0) / (g_j.norm() ** 2 + 1e-12) * g_j)
        return torch.stack(projected).sum(0)

    def backward(self, losses):
        flat = []
        for name, loss in losses.items():
            own = list(self.specific[name])
            grads = torch.autograd.grad(loss, self.shared + own, retain_graph=True)
            flat.append(self.flatten(grads[: len(self.shared)]))
            for p, g in zip(own, grads[len(self.shared):]):
                p.grad = g
        merged, at = self.project(flat), 0
        for p in self.shared:
            p.grad = merged[at: at + p.numel()].view_as(p)
            at += p.numel()


@torch.no_grad()
def mean_iou(model, gen, device):
    image, target = make_scene(gen)
    pred = model(image.to(device))["seg"].argmax(1).cpu()
    ious = []
    for c in range(SEG):
        union = ((pred == c) | (target["seg"] == c)).sum().item()
        if union:
            ious.append(((pred == c) & (target["seg"] == c)).sum().item() / union)
    return sum(ious) / len(ious)


def main():
    torch.manual_seed(9)
    random.seed(9)
    device = torch_xla.device()
    model = SceneNet().to(device)
    base = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(base, max_lr=6e-3, total_steps=21)
    opt = PCGrad(base, model.encoder.parameters(),
                 {name: list(head.parameters()) for name, head in model.heads.items()})
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()

    for step in range(20):
        image, target = make_scene(gen)
        image = image.to(device)
        target = {k: v.to(device) for k, v in target.items()}
        losses = task_losses(model(image), target)
        opt.zero_grad()
        opt.backward(losses)
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 8 == 7:
            text = "  ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            xm.master_print(f"step {step + 1:3d}  {text}  mIoU {mean_iou(model, gen, device):.3f}")


if __name__ == "__main__":
    main()
