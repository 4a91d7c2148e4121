"""Point-cloud autoencoder with a Chamfer loss, one AdamW step."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, POINTS, LATENT = 4, 32, 24


class SharedMLP(nn.Module):
    """The same linear layer at each point, then batch norm over all the points."""

    def __init__(self, c_in, c_out):
        super().__init__()
        self.fc = nn.Linear(c_in, c_out, bias=False)
        self.bn = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return self.bn(self.fc(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = SharedMLP(3, 16)
        self.l2 = SharedMLP(16, LATENT)

    def forward(self, pts):
        b, n, _ = pts.shape
        x = F.relu(self.l1(pts.reshape(b * n, 3)))
        x = self.l2(x)
        return x.view(b, n, LATENT).max(dim=1)[0]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(LATENT, 48)
        self.fc2 = nn.Linear(48, 48)
        self.fc3 = nn.Linear(48, 3 * POINTS)

    def forward(self, z):
        h = F.leaky_relu(self.fc1(z), 0.2)
        h = F.leaky_relu(self.fc2(h), 0.2)
        return torch.tanh(self.fc3(h)).view(-1, POINTS, 3)


def chamfer(p, q):
    d = (p.unsqueeze(2) - q.unsqueeze(1)).square().sum(dim=-1)
    return d.min(dim=2)[0].mean() + d.min(dim=1)[0].mean()


def normalize(pts):
    centred = pts - pts.mean(dim=1, keepdim=True)
    radius = centred.norm(dim=2).max(dim=1)[0]
    return centred / radius.view(-1, 1, 1)


def train_step(enc, dec, opt, pts):
    opt.zero_grad()
    target = normalize(pts)
    z = enc(target)
    loss = chamfer(dec(z), target) + 1e-3 * z.pow(2).sum(dim=1).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


def live(enc, dec, opt, loss):
    params = list(enc.parameters()) + list(dec.parameters())
    out = list(params) + list(enc.buffers())
    for p in params:
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + [loss]


def setup():
    torch.manual_seed(13)
    dev = torch_xla.device()
    enc, dec = Encoder().to(dev), Decoder().to(dev)
    opt = torch.optim.AdamW(
        list(enc.parameters()) + list(dec.parameters()), lr=1e-3, weight_decay=1e-2)
    pts = torch.randn(BATCH, POINTS, 3).to(dev)
    torch_xla.sync()
    return enc, dec, opt, pts


def main(path):
    enc, dec, opt, pts = setup()
    for it in range(4):
        loss = train_step(enc, dec, opt, pts)
        if it == 3 and path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(enc, dec, opt, loss)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
