"""Point cloud autoencoder (PointNet encoder, folding decoder) with Chamfer loss,
for scanned tree crowns."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

POINTS = 16
BATCH = 4
CODE = 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 16, 1)
        self.conv2 = nn.Conv1d(16, 24, 1)
        self.head = nn.Linear(24, CODE)

    def forward(self, pts):
        h = F.relu(self.conv1(pts.transpose(1, 2)))
        h = F.relu(self.conv2(h))
        return self.head(h.amax(dim=2))


class FoldingDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        side = int(POINTS ** 0.5)
        u = torch.linspace(-1, 1, side)
        grid = torch.stack(torch.meshgrid(u, u, indexing="ij"), dim=-1).reshape(-1, 2)
        self.register_buffer("grid", grid)
        self.fold1 = nn.Linear(CODE + 2, 20)
        self.fold1_out = nn.Linear(20, 3)
        self.fold2 = nn.Linear(CODE + 3, 20)
        self.fold2_out = nn.Linear(20, 3)

    def forward(self, code):
        b = code.shape[0]
        tiled = code.unsqueeze(1).expand(-1, POINTS, -1)
        grid = self.grid.unsqueeze(0).expand(b, -1, -1)
        p = self.fold1_out(F.relu(self.fold1(torch.cat([tiled, grid], dim=2))))
        return self.fold2_out(F.relu(self.fold2(torch.cat([tiled, p], dim=2))))


def pairwise_sq(a, b):
    aa = (a * a).sum(dim=2).unsqueeze(2)
    bb = (b * b).sum(dim=2).unsqueeze(1)
    return (aa + bb - 2.0 * torch.bmm(a, b.transpose(1, 2))).clamp_min(0.0)


def chamfer(pred, target):
    to_target = pairwise_sq(pred, target).amin(dim=2).mean(dim=1)
    to_pred = pairwise_sq(target, pred).amin(dim=1).mean(dim=1)
    return to_target + to_pred


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = FoldingDecoder()

    def forward(self, pts):
        code = self.encoder(pts)
        return self.decoder(code), code


def live(model, opt, extra):
    out = list(model.parameters())
    for p in model.parameters():
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + extra


def main(path=None, dump_at=2, steps=3):
    torch.manual_seed(5)
    device = torch_xla.device()
    model = AutoEncoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-3)
    g = torch.Generator().manual_seed(11)
    losses = []
    for step in range(steps):
        pts = torch.randn(BATCH, POINTS, 3, generator=g)
        pts = (pts / pts.norm(dim=2, keepdim=True)).to(device)
        recon, code = model(pts)
        loss = chamfer(recon, pts).mean() + 1e-3 * code.pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if path and step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss])))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
