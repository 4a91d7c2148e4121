"""Capsule network over single-pixel hyperspectral signatures (mineral classes)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BANDS, CLASSES = 24, 4


def squash(s, dim=-1):
    n2 = (s * s).sum(dim=dim, keepdim=True)
    return s * n2 / ((1 + n2) * torch.sqrt(n2 + 1e-8))


class Routing(nn.Module):
    def __init__(self, n_in, d_in, n_out, d_out, iters=3):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(n_out, n_in, d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(n_out, d_out))
        self.iters = iters

    def forward(self, u):
        u_hat = torch.einsum("bid,oide->boie", u, self.weight)
        votes = u_hat.detach()
        b = torch.zeros(u_hat.shape[:3], device=u.device)
        for it in range(self.iters):
            c = torch.softmax(b, dim=1).unsqueeze(-1)
            if it == self.iters - 1:
                return squash((c * u_hat).sum(dim=2) + self.bias)
            v = squash((c * votes).sum(dim=2) + self.bias.detach())
            b = b + (votes * v.unsqueeze(2)).sum(dim=-1)


class SpectralCaps(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 6, 5, stride=2, padding=2)
        self.prim = nn.Conv1d(6, 8, 3, stride=2, padding=1)
        self.caps = Routing(12, 4, CLASSES, 5)
        self.rec1 = nn.Linear(CLASSES * 5, 16)
        self.rec2 = nn.Linear(16, BANDS)

    def forward(self, x, onehot):
        h = F.relu(self.conv(x.unsqueeze(1)))
        p = self.prim(h)                                   # b, 8, 6
        p = squash(p.transpose(1, 2).reshape(x.shape[0], 12, 4))
        v = self.caps(p)
        masked = (v * onehot.unsqueeze(-1)).flatten(1)
        rec = torch.sigmoid(self.rec2(F.relu(self.rec1(masked))))
        return torch.sqrt((v * v).sum(-1) + 1e-8), rec


def margin(length, onehot, m_pos=0.9, m_neg=0.1, lam=0.5):
    pos = onehot * F.relu(m_pos - length) ** 2
    neg = (1 - onehot) * F.relu(length - m_neg) ** 2
    return (pos + lam * neg).sum(1).mean()


def main(path):
    dev = torch_xla.device()
    torch.manual_seed(2)
    net = SpectralCaps().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    torch_xla.sync()
    for step in range(3):
        x = torch.rand(6, BANDS).to(dev)
        onehot = F.one_hot(torch.randint(0, CLASSES, (6,)), CLASSES).float().to(dev)
        length, rec = net(x, onehot)
        loss = margin(length, onehot) + 0.0005 * BANDS * F.mse_loss(rec, x)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 1:
            live = [loss.detach()] + [p.data for p in net.parameters()]
            live += [opt.state[p]["momentum_buffer"] for p in net.parameters()]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
