import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ASSETS, LOOKBACK, FEATURES = 6, 10, 5


def split_heads(x, heads):
    b, n, d = x.shape
    return x.reshape(b, n, heads, d // heads)


class CrossAssetAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (split_heads(f(x), self.heads) for f in (self.q, self.k, self.v))
        w = torch.einsum("bihd,bjhd->bhij", q * self.scale, k).softmax(dim=-1)
        return self.o(torch.einsum("bhij,bjhd->bihd", w, v).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.ff1 = nn.Linear(dim, hidden)
        self.ff2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.ff2(F.relu(self.ff1(x)))


class Encoder(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = CrossAssetAttention(dim, heads)
        self.ff = FeedForward(dim, 2 * dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class PortfolioNet(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.embed = nn.Linear(LOOKBACK * FEATURES, dim)
        self.encoder = Encoder(dim, heads)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, x):
        scores = self.score(self.encoder(self.embed(x.flatten(2))).tanh())
        return F.softmax(scores[..., 0], dim=1)


def net_returns(weights, prev, returns, cost):
    turnover = torch.sum(torch.abs(prev - weights), dim=1)
    return torch.einsum("bn,bn->b", weights, returns) - cost * turnover


def objective(weights, prev, returns, cost=1e-3, risk=0.1):
    net = net_returns(weights, prev, returns, cost)
    mean = net.mean()
    sharpe = mean * torch.rsqrt((net - mean).square().mean() + 1e-8)
    return risk * weights.square().sum(dim=1).mean() - sharpe


def make_optimizer(model, lr=1e-3):
    return torch.optim.Adam(model.parameters(), lr=lr)


def train_step(model, opt, x, prev, returns):
    opt.zero_grad()
    loss = objective(model(x), prev, returns)
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
