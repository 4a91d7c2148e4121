"""Jet tagging from unordered particles: masked multi-head attention pooling, one training step."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class HeadedPool(nn.Module):
    """Learned queries, one per head, pool a set of particles into one vector."""

    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.query = nn.Parameter(torch.randn(heads, self.hd) * 0.5)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, _ = x.shape
        k = self.key(x).view(b, n, self.heads, self.hd)
        v = self.value(x).view(b, n, self.heads, self.hd)
        score = torch.einsum("bnhd,hd->bhn", k, self.query) * self.hd ** -0.5
        attn = score.masked_fill(~mask[:, None, :], -1e9).softmax(dim=-1)
        return torch.einsum("bhn,bnhd->bhd", attn, v).reshape(b, -1)


class JetTagger(nn.Module):
    def __init__(self, feats=5, dim=16, classes=3):
        super().__init__()
        self.embed = nn.Linear(feats, dim)
        self.norm = nn.LayerNorm(dim)
        self.pool = HeadedPool(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x, mask):
        h = F.silu(self.norm(self.embed(x)))
        return self.head(self.pool(h, mask))


def main(out):
    torch.manual_seed(23)
    dev = torch_xla.device()
    model = JetTagger().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    gen = torch.Generator().manual_seed(1)
    for step in range(4):
        x = torch.randn(8, 14, 5, generator=gen).to(dev)
        n = torch.randint(4, 15, (8, 1), generator=gen)
        mask = (torch.arange(14)[None] < n).to(dev)
        y = torch.randint(0, 3, (8,), generator=gen).to(dev)
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        logits = model(x, mask)
        logp = F.log_softmax(logits, dim=-1)
        pt = logp.gather(1, y[:, None]).squeeze(1)
        loss = -((1 - pt.exp()) ** 2 * pt).mean()
        loss.backward()
        opt.step()
        acc = (logits.detach().argmax(-1) == y).float().mean()
        loss = loss.detach()
        live = [loss, acc]
        for p in model.parameters():
            live += [p, p.grad, opt.state[p]["momentum_buffer"]]
        if step == 3:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, "%.7f %.4f" % (loss.item(), acc.item()),
              "%.6f" % sum(p.abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
