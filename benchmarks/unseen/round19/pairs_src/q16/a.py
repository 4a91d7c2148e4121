"""Multi-task head on a shared trunk: molecule solubility + toxicity.  First version, all in one class."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Model(nn.Module):
    def __init__(self, n_feat=20, hid=32):
        super().__init__()
        self.trunk1 = nn.Linear(n_feat, hid)
        self.trunk2 = nn.Linear(hid, hid)
        self.norm = nn.LayerNorm(hid)
        self.sol1 = nn.Linear(hid, 12)
        self.sol2 = nn.Linear(12, 1)
        self.tox1 = nn.Linear(hid, 18)
        self.tox2 = nn.Linear(18, 4)
        for name, p in self.named_parameters():
            seed_init(name, p)

    def forward(self, x):
        h = torch.tanh(self.trunk1(x))
        h = self.norm(h + torch.tanh(self.trunk2(h)))
        sol = self.sol2(F.relu(self.sol1(h)))
        tox = self.tox2(F.relu(self.tox1(h)))
        return sol, tox


def seed_init(name, p):
    g = torch.Generator().manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        p.copy_(torch.randn(p.shape, generator=g) * (0.3 if p.dim() > 1 else 0.05))


def train(steps=4):
    dev = torch_xla.device()
    g = torch.Generator().manual_seed(1)
    net = Model().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    torch_xla.sync()
    for _ in range(steps):
        x = torch.randn(16, 20, generator=g).to(dev)
        s = torch.randn(16, 1, generator=g).to(dev)
        t = torch.randint(0, 2, (16, 4), generator=g).float().to(dev)
        sol, tox = net(x)
        loss_s = F.mse_loss(sol, s)
        loss_t = F.binary_cross_entropy_with_logits(tox, t)
        loss = loss_s + loss_t
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print("%.9g %.9g" % (loss_s.item(), loss_t.item()))
    print("%.9g" % sum(p.double().abs().sum().item() for n, p in sorted(net.named_parameters(), key=lambda q: q[0][-9:])))


if __name__ == "__main__":
    train()
