"""Drug-target link prediction with rotations in the complex plane, self-adversarial negatives."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RotateKGE(nn.Module):
    def __init__(self, n_ent=60, n_rel=7, dim=6, gamma=6.0):
        super().__init__()
        self.gamma = gamma
        self.eps = 2.0
        self.dim = dim
        self.rng = (gamma + self.eps) / dim
        self.ent = nn.Parameter(torch.empty(n_ent, 2 * dim).uniform_(-self.rng, self.rng))
        self.rel = nn.Parameter(torch.empty(n_rel, dim).uniform_(-self.rng, self.rng))
        self.type_proj = nn.Linear(2 * dim, 2 * dim)
        self.bias = nn.Parameter(torch.zeros(n_ent))

    def lookup(self, ids):
        e = self.ent[ids]
        return e + 0.1 * torch.tanh(self.type_proj(e))

    def forward(self, head, rel, tail):
        """head, tail: [B, K] (broadcast against each other), rel: [B]."""
        re_h, im_h = self.lookup(head).chunk(2, dim=-1)
        re_t, im_t = self.lookup(tail).chunk(2, dim=-1)
        phase = self.rel[rel].unsqueeze(1) / (self.rng / math.pi)
        re_r, im_r = torch.cos(phase), torch.sin(phase)
        re = re_h * re_r - im_h * im_r - re_t
        im = re_h * im_r + im_h * re_r - im_t
        dist = torch.sqrt(re * re + im * im + 1e-12).sum(-1)
        return self.gamma - dist + self.bias[tail]


def link_loss(pos, neg, weight, temperature=0.5):
    adv = F.softmax(neg * temperature, dim=1).detach()
    neg_term = (adv * F.logsigmoid(-neg)).sum(1)
    pos_term = F.logsigmoid(pos).squeeze(1)
    pos_loss = -(weight * pos_term).mean()
    neg_loss = -(weight * neg_term).mean()
    return (pos_loss + neg_loss) / 2


def train_step(model, opt, batch):
    head, rel, tail, neg, weight = batch
    opt.zero_grad(set_to_none=True)
    pos = model(head, rel, tail)
    neg_tail = model(head, rel, neg)
    loss = link_loss(pos, neg_tail, weight)
    reg = model.ent.norm(p=3) ** 3 + model.rel.norm(p=3) ** 3
    total = loss + 1e-5 * reg
    total.backward()
    opt.step()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        rank = 1 + (neg_tail > pos).sum(1)
        mrr = (1.0 / rank).mean()
    return total.detach(), norm, mrr


def main(out):
    torch.manual_seed(11)
    dev = torch_xla.device()
    model = RotateKGE().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, foreach=False)
    for st in opt.state.values():
        st["sum"] = st["sum"].to(dev)
    for step in range(3):
        B, K = 16, 10
        batch = (
            torch.randint(0, 60, (B, 1)).to(dev),
            torch.randint(0, 7, (B,)).to(dev),
            torch.randint(0, 60, (B, 1)).to(dev),
            torch.randint(0, 60, (B, K)).to(dev),
            (1.0 / torch.randint(1, 9, (B,)).float().sqrt()).to(dev),
        )
        torch_xla.sync()
        loss, norm, mrr = train_step(model, opt, batch)
        live = [loss, norm, mrr]
        for p in model.parameters():
            live += [p, p.grad, opt.state[p]["sum"]]
        if step == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), norm.item(), mrr.item())


if __name__ == "__main__":
    main(sys.argv[1])
