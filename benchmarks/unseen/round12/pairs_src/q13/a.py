"""GraphSAGE node classification on a stochastic block graph (full batch)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONF = {"nodes": 60, "edges": 240, "feat": 12, "hidden": 24, "classes": 4, "layers": 3,
        "lr": 5e-3, "weight_decay": 5e-4, "epochs": 14, "seed": 9}


def build_graph(c):
    g = torch.Generator().manual_seed(c["seed"])
    y = torch.randint(0, c["classes"], (c["nodes"],), generator=g)
    src, dst = [], []
    while len(src) < c["edges"]:
        a, b = torch.randint(0, c["nodes"], (2,), generator=g).tolist()
        if y[a] == y[b] or torch.rand((), generator=g) < 0.15:
            src.append(a)
            dst.append(b)
    x = F.one_hot(y, c["feat"]).float() * 0.5 + torch.randn(c["nodes"], c["feat"], generator=g)
    train = torch.rand(c["nodes"], generator=g) < 0.6
    return x, torch.tensor([src, dst]), y, train


class SAGEConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.lin_neigh = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x, edges):
        src, dst = edges[0], edges[1]
        msg = x.index_select(0, src)
        agg = torch.zeros_like(x).index_add(0, dst, msg)
        deg = torch.zeros_like(x[:, :1]).index_add(0, dst, torch.ones_like(msg[:, :1]))
        agg = agg / deg.clamp(min=1.0)
        return self.lin_self(x) + self.lin_neigh(agg)


class SAGE(nn.Module):
    def __init__(self, c):
        super().__init__()
        dims = [c["feat"]] + [c["hidden"]] * (c["layers"] - 1) + [c["classes"]]
        self.convs = nn.ModuleList(SAGEConv(i, o) for i, o in zip(dims[:-1], dims[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for d in dims[1:-1])

    def forward(self, x, edges):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edges)))
        return self.convs[-1](x, edges)


def masked_nll(logits, y, mask):
    w = mask.float()
    return (F.cross_entropy(logits, y, reduction="none") * w).sum() / w.sum()


def main(c):
    torch.manual_seed(c["seed"])
    device = torch_xla.device()
    x, edges, y, train = (t.to(device) for t in build_graph(c))
    model = SAGE(c).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=c["lr"], weight_decay=c["weight_decay"])
    torch_xla.sync()
    for epoch in range(c["epochs"]):
        model.train()
        opt.zero_grad()
        logits = model(x, edges)
        loss = masked_nll(logits, y, train)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if epoch % 5 == 4:
            pred = logits.cpu().argmax(1)
            print(f"epoch {epoch + 1} loss {loss.item():.3f} acc {(pred == y.cpu()).float().mean():.3f}")


if __name__ == "__main__":
    main(CONF)
