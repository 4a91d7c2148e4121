"""Tree-crown lidar: point-set autoencoder with a Chamfer loss."""
import sys

import torch
import torch.nn as nn
import torch_xla

POINTS, OUT_POINTS, CODE = 20, 16, 10


class PointEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(3, 12, 1)
        self.b1 = nn.BatchNorm1d(12)
        self.c2 = nn.Conv1d(12, 16, 1)
        self.b2 = nn.BatchNorm1d(16)
        self.c3 = nn.Conv1d(16, CODE, 1)

    def forward(self, pts):
        h = torch.relu(self.b1(self.c1(pts.transpose(1, 2))))
        h = torch.relu(self.b2(self.c2(h)))
        return self.c3(h).amax(dim=2)


class CrownAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = PointEncoder()
        self.dec = nn.Sequential(
            nn.Linear(CODE, 24), nn.LeakyReLU(0.1),
            nn.Linear(24, 24), nn.LeakyReLU(0.1),
            nn.Linear(24, OUT_POINTS * 3),
        )

    def forward(self, pts):
        code = self.enc(pts)
        return self.dec(code).view(-1, OUT_POINTS, 3), code


def pairwise(x, y):
    """Squared distances, (B, N, 3) x (B, M, 3) -> (B, N, M)."""
    xx = (x * x).sum(-1).unsqueeze(2)
    yy = (y * y).sum(-1).unsqueeze(1)
    return (xx + yy - 2.0 * torch.bmm(x, y.transpose(1, 2))).clamp(min=0.0)


def chamfer(pts, rec):
    d = pairwise(pts, rec)
    to_rec = d.min(dim=2)[0].mean(dim=1)
    to_pts = d.min(dim=2)[0].mean(dim=1)
    return (to_rec + to_pts).mean()


def crowns(gen, n=6):
    u = torch.randn(n, POINTS, 3, generator=gen)
    u = u / u.norm(dim=-1, keepdim=True)
    return u * (0.5 + torch.rand(n, 1, 3, generator=gen))


def train_step(model, opt, pts):
    rec, code = model(pts)
    dist = chamfer(pts, rec)
    loss = dist + 1e-3 * code.pow(2).mean()
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return dist.detach(), loss.detach()


def live(model, opt):
    out = list(model.parameters()) + list(model.buffers())
    for p in model.parameters():
        out += [opt.state[p]["square_avg"], opt.state[p]["momentum_buffer"]]
    return out


def main():
    torch.manual_seed(21)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(22)
    model = CrownAE().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for it in range(4):
        pts = crowns(gen).to(dev)
        dist, loss = train_step(model, opt, pts)
        if it == 2 and len(sys.argv) > 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [dist, loss])
            with open(sys.argv[1], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(it, dist.item(), loss.item())


if __name__ == "__main__":
    main()
