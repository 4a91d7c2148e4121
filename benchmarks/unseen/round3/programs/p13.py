import torch
import torch.nn as nn
import torch_xla


class Router(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.w = nn.Linear(d, n, bias=False)

    def forward(self, x):
        logits = self.w(x)
        if self.training:
            logits = logits + torch.randn_like(logits) * 0.1
        top, idx = logits.topk(2, -1)
        return torch.zeros_like(logits).scatter(1, idx, top.softmax(-1))


class MoE(nn.Module):
    def __init__(self, d=10, n=4):
        super().__init__()
        self.router = Router(d, n)
        self.w1 = nn.Parameter(torch.randn(n, d, 2 * d) * 0.1)
        self.w2 = nn.Parameter(torch.randn(n, 2 * d, d) * 0.1)

    def forward(self, x):
        gates = self.router(x)
        busy = int((gates > 0).sum(0).max())
        weight, token = gates.t().topk(busy, -1)
        h = torch.bmm(x[token], self.w1).relu()
        y = torch.bmm(h, self.w2) * weight[..., None]
        out = torch.zeros_like(x).index_add(0, token.flatten(), y.flatten(0, 1))
        load = gates.mean(0)
        return x + out, (load * load).sum() * gates.shape[1]


torch.manual_seed(0)
device = torch.device("xla")
moe, head = MoE().to(device), nn.Linear(10, 3).to(device)
params = [*moe.parameters(), *head.parameters()]
opt = torch.optim.Adam(params, lr=2e-3)
for i in range(10):
    x, y = torch.randn(14, 10).to(device), torch.randint(0, 3, (14,)).to(device)
    h, balance = moe(x)
    loss = nn.functional.cross_entropy(head(h), y) + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
    torch_xla.sync()
    print(i, f"loss {loss.item():.3f} balance {balance.item():.3f} norm {norm.item():.3f}")
