"""Fit a signed distance field (SIREN) to an oriented point cloud with an eikonal term."""
import sys

import torch
import torch.nn as nn
import torch_xla


class Sine(nn.Module):
    def __init__(self, w0):
        super().__init__()
        self.w0 = w0

    def forward(self, x):
        return torch.sin(self.w0 * x)


class SDFNet(nn.Module):
    def __init__(self, dim=3, hidden=16, depth=3, w0=30.0):
        super().__init__()
        layers = []
        last = dim
        for i in range(depth):
            lin = nn.Linear(last, hidden)
            bound = 1.0 / last if i == 0 else (6.0 / last) ** 0.5 / w0
            nn.init.uniform_(lin.weight, -bound, bound)
            layers += [lin, Sine(w0)]
            last = hidden
        layers.append(nn.Linear(last, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


def spatial_gradient(y, x):
    return torch.autograd.grad(
        y, x,
        grad_outputs=torch.ones_like(y),
        create_graph=True,
        retain_graph=True)[0]


def sdf_loss(net, surf, normals, free):
    pts = torch.cat([surf, free], dim=0).requires_grad_(True)
    sdf = net(pts)
    grad = spatial_gradient(sdf, pts)

    n = surf.shape[0]
    on_surface = sdf[:n].abs().mean()
    inter = torch.exp(-1e2 * sdf[n:].abs()).mean()
    normal = (1.0 - torch.cosine_similarity(grad[:n], normals, dim=-1)).mean()
    eikonal = (grad.norm(dim=-1) - 1.0).abs().mean()
    return 3e3 * on_surface + 1e2 * inter + 1e2 * normal + 5e1 * eikonal


def main():
    torch.manual_seed(7)
    dev = torch_xla.device()
    net = SDFNet().to(dev)
    params = list(net.parameters())
    opt = torch.optim.Adam(params, lr=1e-4)

    for it in range(4):
        surf = torch.nn.functional.normalize(torch.randn(12, 3), dim=-1)
        normals = surf.clone()
        free = torch.rand(8, 3) * 2 - 1
        surf, normals, free = surf.to(dev), normals.to(dev), free.to(dev)

        opt.zero_grad(set_to_none=True)
        loss = sdf_loss(net, surf, normals, free)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=False)
        opt.step()

        if it == 2:
            live = [loss] + params + [p.grad for p in params]
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


main()
