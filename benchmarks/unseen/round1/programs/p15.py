import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoELayer(nn.Module):
    def __init__(self, d=12, experts=3):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(Expert(d) for _ in range(experts))

    def forward(self, x):
        weights, chosen = F.softmax(self.gate(x), -1).max(-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (chosen == e).nonzero().squeeze(1)
            y = expert(x[rows]) * weights[rows].unsqueeze(1)
            out = out.index_add(0, rows, y)
        return out


def main(steps=8):
    torch.manual_seed(9)
    device = torch.device("xla")
    net = nn.Sequential(nn.Linear(12, 12), MoELayer(), nn.Linear(12, 4)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for s in range(steps):
        x, y = torch.randn(20, 12).to(device), torch.randint(0, 4, (20,)).to(device)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(s, f"{loss.item():.4f}")


main()
