"""Node classification with a 2-layer GCN + jumping knowledge on a random block graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

hparams = dict(nodes=40, feats=10, hidden=16, classes=3, lr=0.01, weight_decay=5e-3, epochs=15)


def block_graph(n, classes, p_in=0.4, p_out=0.05):
    y = torch.arange(n) % classes
    prob = torch.where(y[:, None] == y[None], p_in, p_out)
    a = torch.bernoulli(prob).triu(1)
    return a + a.t(), y


def normalise(adj):
    a = adj + torch.eye(adj.size(0))
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None]


class GCNLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout, bias=False)
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x, adj):
        return adj @ self.lin(x) + self.bias


class JKNet(nn.Module):
    def __init__(self, feats, hidden, classes):
        super().__init__()
        self.g1 = GCNLayer(feats, hidden)
        self.g2 = GCNLayer(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.cls = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ELU(), nn.Linear(hidden, classes))

    def forward(self, x, adj):
        h1 = F.relu(self.g1(x, adj))
        h2 = F.relu(self.g2(self.norm(h1), adj))
        return self.cls(torch.cat([h1, h2], dim=-1))


def train(hp):
    torch.manual_seed(7)
    device = torch_xla.device()
    adj, y = block_graph(hp["nodes"], hp["classes"])
    x = torch.randn(hp["nodes"], hp["feats"])
    x[torch.arange(hp["nodes"]), y] += 0.8
    train_mask = (torch.rand(hp["nodes"]) < 0.5).float()
    adj, x, y, train_mask = (t.to(device) for t in (normalise(adj), x, y, train_mask))
    model = JKNet(hp["feats"], hp["hidden"], hp["classes"]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=hp["lr"], weight_decay=hp["weight_decay"])
    for epoch in range(hp["epochs"]):
        model.train()
        logits = model(x, adj)
        nll = F.cross_entropy(logits, y, reduction="none")
        loss = (nll * train_mask).sum() / train_mask.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} loss {loss.item():.4f}")


train(hparams)
