"""Node classification on a stochastic block model graph.

Stage one reconstructs masked node features, stage two trains a linear probe on
the frozen encoder, stage three fine-tunes everything; the weights of stage
three are averaged and the average is what gets evaluated.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel
import torch_xla
import torch_xla.core.xla_model as xm


class GCNLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout)

    def forward(self, adj, h):
        return adj @ self.lin(h)


class GraphEncoder(nn.Module):
    def __init__(self, cin, hidden):
        super().__init__()
        self.a, self.b = GCNLayer(cin, hidden), GCNLayer(hidden, hidden)

    def forward(self, adj, x):
        h = F.relu(self.a(adj, x))
        h = F.dropout(h, 0.2, self.training)
        return F.relu(self.b(adj, h))


class NodeClassifier(nn.Module):
    def __init__(self, encoder, hidden, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(hidden, classes)

    def forward(self, adj, x):
        return self.head(self.encoder(adj, x))


def block_model(n=60, k=4, feats=12, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % k
    prob = torch.where(y[:, None] == y[None, :], 0.30, 0.04)
    upper = torch.triu((torch.rand(n, n, generator=g) < prob).float(), 1)
    adj = upper + upper.T + torch.eye(n)
    dinv = adj.sum(1).rsqrt()
    adj = dinv[:, None] * adj * dinv[None, :]
    x = F.one_hot(y, feats).float() + 0.8 * torch.randn(n, feats, generator=g)
    train = (torch.rand(n, generator=g) < 0.4).float()
    return adj, x, y, train


class Pipeline:
    pretrain_steps, probe_steps, tune_steps = 20, 20, 90

    def __init__(self, device, hidden=16, classes=4):
        self.device = device
        self.adj, self.x, self.y, self.train_mask = (t.to(device) for t in block_model())
        self.model = NodeClassifier(GraphEncoder(12, hidden), hidden, classes).to(device)
        self.decoder = nn.Linear(hidden, 12).to(device)

    def classify_loss(self):
        nll = F.cross_entropy(self.model(self.adj, self.x), self.y, reduction="none")
        return (nll * self.train_mask).sum() / self.train_mask.sum()

    def pretrain(self):
        enc = self.model.encoder
        opt = torch.optim.Adam([*enc.parameters(), *self.decoder.parameters()], lr=1e-2)
        for _ in range(self.pretrain_steps):
            keep = (torch.rand(self.x.shape[0], 1, device=self.device) > 0.3).float()
            rec = self.decoder(enc(self.adj, self.x * keep))
            loss = ((rec - self.x).square() * (1 - keep)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
        print(f"pretrain {loss.item():.4f}")

    def probe(self):
        self.model.encoder.requires_grad_(False).eval()
        opt = torch.optim.SGD(self.model.head.parameters(), lr=0.2)
        for _ in range(self.probe_steps):
            loss = self.classify_loss()
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
        print(f"probe {loss.item():.4f}")

    def finetune(self):
        self.model.encoder.requires_grad_(True).train()
        opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        average = AveragedModel(self.model, avg_fn=lambda avg, cur, num: 0.95 * avg + 0.05 * cur)
        for step in range(self.tune_steps):
            loss = self.classify_loss()
            opt.zero_grad()
            loss.backward()
            opt.step()
            average.update_parameters(self.model)
            torch_xla.sync()
            if step % 10 == 9:
                acc = self.evaluate(average)
                print(f"tune {step + 1} loss {loss.item():.4f} test acc {acc:.3f}")

    @torch.no_grad()
    def evaluate(self, net):
        net.eval()
        hit = (net(self.adj, self.x).argmax(1) == self.y).float()
        test = 1 - self.train_mask
        acc = (hit * test).sum() / test.sum()
        torch_xla.sync()
        net.train()
        return acc.item()


if __name__ == "__main__":
    torch.manual_seed(4)
    p = Pipeline(xm.xla_device())
    torch_xla.sync()
    p.pretrain()
    p.probe()
    p.finetune()
