"""Multi-task head on a shared trunk: molecule solubility + toxicity.  Split up: heads are a ModuleDict, trunk is its own class."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OLD_NAMES = {
    "heads.tox.0": "tox1", "heads.tox.2": "tox2", "heads.sol.0": "sol1", "heads.sol.2": "sol2",
    "trunk.norm": "norm", "trunk.inp": "trunk1", "trunk.res": "trunk2",
}


class Trunk(nn.Module):
    def __init__(self, n_feat, hid):
        super().__init__()
        self.norm = nn.LayerNorm(hid)
        self.res = nn.Linear(hid, hid)
        self.inp = nn.Linear(n_feat, hid)

    def forward(self, x):
        h = self.inp(x).tanh()
        return self.norm(h + self.res(h).tanh())


class Model(nn.Module):
    def __init__(self, n_feat=20, hid=32):
        super().__init__()
        self.heads = nn.ModuleDict({
            "tox": nn.Sequential(nn.Linear(hid, 18), nn.ReLU(), nn.Linear(18, 4)),
            "sol": nn.Sequential(nn.Linear(hid, 12), nn.ReLU(), nn.Linear(12, 1)),
        })
        self.trunk = Trunk(n_feat, hid)
        for name, p in self.named_parameters():
            mod, leaf = name.rsplit(".", 1)
            seed_init(OLD_NAMES[mod] + "." + leaf, p)

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h) for k, head in self.heads.items()}


def seed_init(name, p):
    g = torch.Generator().manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        p.copy_(torch.randn(p.shape, generator=g) * (0.3 if p.dim() > 1 else 0.05))


def losses(out, s, t):
    lt = nn.functional.binary_cross_entropy_with_logits(out["tox"], t)
    ls = nn.functional.mse_loss(out["sol"], s)
    return ls, lt


def train(steps=4):
    dev = torch_xla.device()
    g = torch.Generator().manual_seed(1)
    net = Model().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    torch_xla.sync()
    for _ in range(steps):
        x, s = torch.randn(16, 20, generator=g), torch.randn(16, 1, generator=g)
        t = torch.randint(0, 2, (16, 4), generator=g).float()
        t, s, x = t.to(dev), s.to(dev), x.to(dev)
        out = net(x)
        ls, lt = losses(out, s, t)
        opt.zero_grad()
        total = ls + lt
        total.backward()
        opt.step()
        torch_xla.sync()
        print("%.9g %.9g" % (ls.item(), lt.item()))
    print("%.9g" % sum(p.double().abs().sum().item() for n, p in net.named_parameters()))


if __name__ == "__main__":
    train()
