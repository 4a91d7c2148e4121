"""PointNet completion of scanned parts: encoder, folding decoder, Chamfer distance, bf16 autocast."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla

POINTS, COARSE, BATCH = 32, 16, 4


def shared(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
    return nn.Sequential(*layers[:-2])


class Completion(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.local = shared(3, 16, dim)
        self.fuse = shared(2 * dim, 32, dim)
        self.coarse = nn.Linear(dim, COARSE * 3)
        self.fold = shared(dim + 5, 24, 3)
        side = torch.linspace(-0.05, 0.05, 2)
        self.register_buffer("grid", torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).view(-1, 2))

    def forward(self, cloud):
        x = self.local(cloud)
        g = x.amax(1, keepdim=True).expand_as(x)
        code = self.fuse(torch.cat([x, g], -1)).amax(1)
        coarse = self.coarse(code).view(-1, COARSE, 3)
        k = self.grid.shape[0]
        centre = coarse.unsqueeze(2).expand(-1, -1, k, -1).flatten(1, 2)
        grid = self.grid.repeat(COARSE, 1).expand(centre.shape[0], -1, -1)
        code = code.unsqueeze(1).expand(-1, centre.shape[1], -1)
        return coarse, centre + self.fold(torch.cat([centre, grid, code], -1))


def chamfer(a, b):
    d = a.square().sum(-1).unsqueeze(2) + b.square().sum(-1).unsqueeze(1) - 2 * torch.bmm(a, b.transpose(1, 2))
    d = d.clamp(min=0)
    return d.amin(2).mean() + d.amin(1).mean()


def loss_fn(coarse, fine, full, alpha=0.5):
    return chamfer(fine, full) + alpha * chamfer(coarse, full)


def scans(seed):
    rng = np.random.default_rng(seed)
    while True:
        v = rng.normal(size=(BATCH, 2 * POINTS, 3))
        full = v / np.linalg.norm(v, axis=-1, keepdims=True) * rng.uniform(0.4, 1, (BATCH, 1, 3))
        order = np.argsort(full @ rng.normal(size=3), axis=1)[:, :POINTS]
        yield np.take_along_axis(full, order[..., None], 1).astype(np.float32), full.astype(np.float32)


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Completion().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)
    data = scans(1)
    total = torch.zeros((), device=device)
    torch_xla.sync()
    for _ in range(steps):
        partial, full = (torch.from_numpy(a).to(device) for a in next(data))
        with torch.autocast("xla", dtype=torch.bfloat16):
            coarse, fine = model(partial)
            loss = loss_fn(coarse, fine, full)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        total += loss.detach()
        torch_xla.sync()
    print("chamfer", total.item() / steps)


if __name__ == "__main__":
    main()
