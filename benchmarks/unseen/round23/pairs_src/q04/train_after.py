"""Click-through model. Towers are plain functions over a parameter dict; the optimizer is inlined."""
import torch
import torch.nn.functional as F
import torch_xla

FIELDS = [("user", 40), ("item", 60), ("category", 9)]
NUM_DENSE, EMB = 7, 8
LR, MOMENTUM, L2 = 0.05, 0.9, 1e-5


def swish(x):
    return torch.sigmoid(x) * x


def affine(p, name, x):
    return x @ p[f"{name}.w"].t() + p[f"{name}.b"]


def pairwise(vectors, rows, cols):
    stacked = torch.cat([v.unsqueeze(1) for v in vectors], dim=1)
    gram = torch.einsum("bid,bjd->bij", stacked, stacked)
    return gram[:, rows, cols]


def predict(p, rows, cols, dense, cats):
    emb = [F.embedding(c, p[f"emb.{name}"]) for (name, _), c in zip(FIELDS, cats.unbind(1))]
    bottom = swish(affine(p, "bottom2", swish(affine(p, "bottom1", dense))))
    crossed = pairwise([bottom] + emb, rows, cols)
    hidden = torch.relu(affine(p, "top1", torch.cat((bottom, crossed), -1)))
    return affine(p, "top2", hidden)[:, 0]


def make_params(seed, n_pairs):
    g = torch.Generator().manual_seed(seed)
    emb = {}
    for name, rows in sorted(FIELDS):
        emb[f"emb.{name}"] = torch.randn(rows, EMB, generator=g) * 0.1
    mlp = {}
    for name, i, o in [("bottom1", NUM_DENSE, 16), ("bottom2", 16, EMB), ("top1", EMB + n_pairs, 16), ("top2", 16, 1)]:
        mlp[f"{name}.w"] = torch.randn(o, i, generator=g) * i ** -0.5
        mlp[f"{name}.b"] = torch.zeros(o)
    # heads first, tables last: matches the checkpoint layout of the serving side
    return {**dict(reversed(mlp.items())), **emb}


@torch.no_grad()
def momentum_sgd(p, buf):
    for name, w in p.items():
        g = w.grad.add(w, alpha=L2)
        if name in buf:
            buf[name].mul_(MOMENTUM).add_(g)
        else:
            buf[name] = g.clone()
        w.add_(buf[name], alpha=-LR)


@torch.no_grad()
def metrics(logit, y):
    hit = torch.eq(torch.gt(logit, 0).float(), y)
    return {"margin": torch.mean(torch.abs(logit)), "acc": torch.mean(hit.float())}


def batches(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        dense = torch.rand(bs, NUM_DENSE, generator=g)
        cats = torch.stack([torch.randint(0, rows, (bs,), generator=g) for _, rows in FIELDS], 1)
        yield dense, cats, ((dense.sum(1) + (cats[:, 2] % 3)) > 4.5).float()


def main():
    dev = torch_xla.device()
    rows, cols = torch.tril_indices(len(FIELDS) + 1, len(FIELDS) + 1, offset=-1)
    p = {k: v.to(dev).requires_grad_() for k, v in make_params(5, len(rows)).items()}
    rows, cols, buf = rows.to(dev), cols.to(dev), {}
    torch_xla.sync()
    for batch in batches(4, 16, 2):
        dense, cats, y = [t.to(dev) for t in batch]
        logit = predict(p, rows, cols, dense, cats)
        m = metrics(logit, y)
        loss = F.binary_cross_entropy_with_logits(logit, y)
        for w in p.values():
            w.grad = None
        loss.backward()
        momentum_sgd(p, buf)
        torch_xla.sync()
        print(f"loss {loss.item():.6f} acc {m['acc'].item():.4f} margin {m['margin'].item():.6f}")
    print("checksum %.8f" % (p["emb.item"].double().sum().item() + p["top1.w"].double().sum().item()))


main()
