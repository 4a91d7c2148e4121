import torch
import torch.nn as nn
import torch_xla

ASSETS, LOOKBACK, FEATURES = 6, 10, 5


class CrossAssetAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        h = d // self.heads
        q = self.q(x).view(b, n, self.heads, h).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, h).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, h).transpose(1, 2)
        w = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / h ** 0.5, dim=-1)
        return self.o(torch.matmul(w, v).transpose(1, 2).reshape(b, n, d))


class PortfolioNet(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.embed = nn.Linear(LOOKBACK * FEATURES, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.attn = CrossAssetAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, 2 * dim)
        self.ff2 = nn.Linear(2 * dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, x):
        h = self.embed(x.flatten(2))
        h = h + self.attn(self.norm1(h))
        h = h + self.ff2(torch.relu(self.ff1(self.norm2(h))))
        return torch.softmax(self.score(torch.tanh(h)).squeeze(-1), dim=-1)


def objective(weights, prev, returns, cost=1e-3, risk=0.1):
    gross = (weights * returns).sum(dim=1)
    turnover = (weights - prev).abs().sum(dim=1)
    net = gross - cost * turnover
    sharpe = net.mean() / torch.sqrt(((net - net.mean()) ** 2).mean() + 1e-8)
    concentration = (weights ** 2).sum(dim=1).mean()
    return -sharpe + risk * concentration


def make_optimizer(model, lr=1e-3):
    return torch.optim.Adam(model.parameters(), lr=lr)


def train_step(model, opt, x, prev, returns):
    loss = objective(model(x), prev, returns)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def batches(steps, n=12, seed=1):
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = 0.1 * torch.randn(n, ASSETS, LOOKBACK, FEATURES, generator=g)
        prev = torch.rand(n, ASSETS, generator=g).softmax(dim=1)
        yield x, prev, 0.02 * torch.randn(n, ASSETS, generator=g)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = PortfolioNet().to(device)
    opt = make_optimizer(model)
    torch_xla.sync()
    for step, batch in enumerate(batches(4)):
        x, prev, returns = (t.to(device) for t in batch)
        loss = train_step(model, opt, x, prev, returns)
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
