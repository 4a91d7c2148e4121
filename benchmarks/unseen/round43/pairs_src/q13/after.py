"""Molecule solubility regression with an edge-aware graph attention net (torch_xla)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ATOMS, EDGES, MOLS = 40, 96, 6
NODE_F, EDGE_F, HID, HEADS = 9, 4, 16, 2


def seg_sum(src, index, n):
    out = torch.zeros((n,) + src.shape[1:], dtype=src.dtype, device=src.device)
    return out.index_add(0, index, src)


def seg_softmax(score, index, n):
    top = torch.full((n,) + score.shape[1:], -1e4, dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, index.unsqueeze(-1).expand_as(score), score.detach(), "amax")
    score = (score - top[index]).exp()
    denom = seg_sum(score, index, n)
    return score / (denom[index] + 1e-9)


class EdgeGAT(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout, bias=False)
        self.edge = nn.Linear(EDGE_F, HEADS, bias=False)
        self.a_src = nn.Parameter(torch.randn(HEADS, fout // HEADS) * 0.2)
        self.a_dst = nn.Parameter(torch.randn(HEADS, fout // HEADS) * 0.2)
        self.norm = nn.LayerNorm(fout)

    def forward(self, x, src, dst, e):
        n = x.shape[0]
        h = self.lin(x).view(n, HEADS, -1)
        score = (h * self.a_src).sum(-1)[src] + (h * self.a_dst).sum(-1)[dst] + self.edge(e)
        w = seg_softmax(F.leaky_relu(score, 0.2), dst, n)
        msg = h[src] * w.unsqueeze(-1)
        out = seg_sum(msg, dst, n).reshape(n, -1)
        return F.elu(self.norm(out))


class SolubilityNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = EdgeGAT(NODE_F, HID)
        self.conv2 = EdgeGAT(HID, HID)
        self.gate = nn.Linear(HID, 1)
        self.head = nn.Linear(HID, 1)

    def forward(self, x, src, dst, e, mol):
        h1 = self.conv1(x, src, dst, e)
        h = self.conv2(h1, src, dst, e) + h1
        g = torch.sigmoid(self.gate(h))
        pooled = seg_sum(g * h, mol, MOLS)
        return self.head(pooled).squeeze(-1)


def make_batch(gen, device):
    mol = torch.sort(torch.randint(0, MOLS, (ATOMS,), generator=gen)).values
    return [t.to(device) for t in (
        torch.randn(ATOMS, NODE_F, generator=gen),
        torch.randint(0, ATOMS, (EDGES,), generator=gen),
        torch.randint(0, ATOMS, (EDGES,), generator=gen),
        torch.rand(EDGES, EDGE_F, generator=gen),
        mol,
        torch.randn(MOLS, generator=gen) * 2.0 - 3.0)]


def build_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)


def train_step(model, opt, batch):
    x, src, dst, e, mol, y = batch
    opt.zero_grad()
    pred = model(x, src, dst, e, mol)
    loss = F.mse_loss(pred, y)
    loss.backward()
    opt.step()
    return loss.detach(), (pred.detach() - y).abs().mean()


def live(model, opt):
    out = list(model.parameters())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    for st in opt.state.values():
        out += [v for v in st.values() if torch.is_tensor(v)]
    return out


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path):
    torch.manual_seed(13)
    device = torch_xla.device()
    model = SolubilityNet().to(device)
    opt = build_optimizer(model)
    gen = torch.Generator().manual_seed(2)
    torch_xla.sync()
    for step in range(3):
        out = train_step(model, opt, make_batch(gen, device))
        if step == 2:
            dump(path, live(model, opt) + list(out))
        torch_xla.sync()
        print(step, [round(float(v), 5) for v in out])


if __name__ == "__main__":
    main(sys.argv[1])
