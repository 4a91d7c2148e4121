"""CTR model: dense tower + categorical embeddings + pairwise interactions."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_DENSE = 7
TABLES = {"user": 40, "item": 60, "category": 9}
DIM = 8


class InteractionModel(nn.Module):

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleDict({k: nn.Embedding(n, DIM) for k, n in TABLES.items()})
        self.bottom1 = nn.Linear(N_DENSE, 16)
        self.bottom2 = nn.Linear(16, DIM)
        n = len(TABLES) + 1
        i, j = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("li", i)
        self.register_buffer("lj", j)
        self.top1 = nn.Linear(DIM + len(i), 16)
        self.top2 = nn.Linear(16, 1)

    def forward(self, dense, cats):
        z = F.silu(self.bottom1(dense))
        z = F.silu(self.bottom2(z))
        vecs = [z]
        for k, name in enumerate(TABLES):
            vecs.append(self.tables[name](cats[:, k]))
        feats = torch.stack(vecs, dim=1)
        inter = torch.bmm(feats, feats.transpose(1, 2))
        inter = inter[:, self.li, self.lj]
        h = torch.cat([z, inter], dim=1)
        h = F.relu(self.top1(h))
        return self.top2(h).squeeze(1)


def init(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name in sorted(TABLES):
            w = model.tables[name].weight
            w.copy_(torch.randn(w.shape, generator=g) * 0.1)
        for layer in (model.bottom1, model.bottom2, model.top1, model.top2):
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=g) * layer.in_features ** -0.5)
            layer.bias.zero_()


def click_log(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        dense = torch.rand(bs, N_DENSE, generator=g)
        cats = torch.stack([torch.randint(0, s, (bs,), generator=g) for s in TABLES.values()], 1)
        y = ((dense.sum(1) + (cats[:, 2] % 3)) > 4.5).float()
        yield dense, cats, y


def main():
    device = torch_xla.device()
    model = InteractionModel()
    init(model, 5)
    model = model.to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-5)
    torch_xla.sync()
    for dense, cats, y in click_log(4, 16, 2):
        dense, cats, y = dense.to(device), cats.to(device), y.to(device)
        logit = model(dense, cats)
        loss = F.binary_cross_entropy_with_logits(logit, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            acc = ((logit > 0).float() == y).float().mean()
            margin = logit.abs().mean()
        xm.mark_step()
        print("loss %.6f acc %.4f margin %.6f" % (loss.item(), acc.item(), margin.item()))
    w = model.tables["item"].weight.double().sum().item() + model.top1.weight.double().sum().item()
    print("checksum %.8f" % w)


if __name__ == "__main__":
    main()
