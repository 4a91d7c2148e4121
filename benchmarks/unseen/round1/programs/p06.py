import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

VOCAB, MASK = 60, 1


def corrupt(ids, p, gen):
    labels = ids.clone()
    chosen = torch.rand(ids.shape, generator=gen) < p
    labels[~chosen] = -100
    out = ids.clone()
    out[chosen] = MASK
    return out, labels


class TinyBert(nn.Module):
    def __init__(self, dim=16, heads=2, layers=1, seq=12):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(seq, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        return self.head(self.encoder(self.tok(ids) + self.pos))


def mlm_loss(logits, labels):
    active = labels != -100
    return F.cross_entropy(logits[active], labels[active])


def run(args):
    gen = torch.Generator().manual_seed(args.seed)
    device = xm.xla_device()
    model = TinyBert().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        ids = torch.randint(2, VOCAB, (4, 12), generator=gen)
        inputs, labels = corrupt(ids, 0.2, gen)
        loss = mlm_loss(model(inputs.to(device)), labels.to(device))
        loss.backward()
        opt.step()
        opt.zero_grad()
        xm.mark_step()
        xm.master_print(step, loss.item())


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=0)
    run(ap.parse_args())
