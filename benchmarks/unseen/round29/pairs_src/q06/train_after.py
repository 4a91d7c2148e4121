import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD = 0
SRC_VOCAB = 26
TAGS = 7


class GRUTagger(nn.Module):
    """Gated tagger for short codes, unrolled by hand."""

    def __init__(self, emb=16, hid=20):
        super().__init__()
        self.hid = hid
        self.emb = nn.Embedding(SRC_VOCAB, emb)
        self.cell = nn.GRUCell(emb, hid)
        self.norm = nn.LayerNorm(hid)
        self.out = nn.Linear(hid, TAGS)

    def scan(self, cell, xs, keep):
        h = xs[0].new_zeros(xs[0].shape[0], self.hid)
        hs = []
        for x, k in zip(xs, keep):
            h = torch.where(k, cell(x, h), h)
            hs.append(h)
        return hs

    def forward(self, ids):
        keep = [k.unsqueeze(1) for k in (ids != PAD).unbind(1)]
        xs = self.emb(ids).unbind(1)
        states = torch.stack(self.scan(self.cell, xs, keep), 1)
        return self.out(self.norm(states))


def sample(batch, length, gen):
    ids = torch.randint(1, SRC_VOCAB, (batch, length), generator=gen)
    n = torch.randint(2, length + 1, (batch, 1), generator=gen)
    ids = ids.masked_fill(torch.arange(length) >= n, PAD)
    tags = (ids + ids.roll(1, 1)) % TAGS
    return ids, tags


def tagging_loss(logits, tags, ids):
    mask = (ids != PAD).float()
    nll = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), reduction="none")
    nll = nll.view_as(mask) * mask
    return nll.mean()


def main(steps=5, batch=6, length=4):
    gen = torch.Generator().manual_seed(21)
    torch.manual_seed(21)
    device = xm.xla_device()
    model = GRUTagger().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3, amsgrad=True)
    xm.mark_step()
    for step in range(steps):
        ids, tags = sample(batch, length, gen)
        ids, tags = ids.to(device), tags.to(device)
        loss = tagging_loss(model(ids), tags, ids)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"[{step}] {loss.item():.4f}")


if __name__ == "__main__":
    main()
