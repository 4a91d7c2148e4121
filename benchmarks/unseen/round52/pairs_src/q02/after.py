"""RotatE knowledge-graph embedding with literals gated into the entities (drug / protein graph)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ENTITIES, RELATIONS, DIM, LITERALS = 40, 6, 8, 3
GAMMA, ALPHA, N3 = 6.0, 0.7, 1e-3


class LiteralGate(nn.Module):
    """LiteralE: mixes numeric attributes (weight, logP, ...) into the embedding."""

    def __init__(self, dim, n_lit):
        super().__init__()
        self.proj = nn.Linear(dim + n_lit, dim)
        self.gate = nn.Linear(dim + n_lit, dim)

    def forward(self, e, lit):
        z = torch.cat([e, lit], dim=-1)
        g = torch.sigmoid(self.gate(z))
        return g * torch.tanh(self.proj(z)) + (1 - g) * e


class RotatE(nn.Module):
    def __init__(self, literals):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, 2 * DIM)
        self.phase = nn.Embedding(RELATIONS, DIM)
        self.literal = LiteralGate(2 * DIM, LITERALS)
        self.register_buffer("lit", literals)
        nn.init.uniform_(self.entity.weight, -0.5, 0.5)
        nn.init.uniform_(self.phase.weight, -3.0, 3.0)

    def encode(self, idx):
        return self.literal(self.entity(idx), self.lit[idx])

    def forward(self, head, rel, tail):
        re_h, im_h = self.encode(head).chunk(2, dim=-1)
        re_t, im_t = self.encode(tail).chunk(2, dim=-1)
        phase = self.phase(rel)
        re_r, im_r = torch.cos(phase), torch.sin(phase)
        re = re_h * re_r - im_h * im_r - re_t
        im = re_h * im_r + im_h * re_r - im_t
        dist = torch.sqrt(re ** 2 + im ** 2 + 1e-9).sum(dim=-1)
        return GAMMA - dist

    def penalty(self, head, tail):
        e = torch.cat([self.entity(head), self.entity(tail)])
        return e.abs().pow(3).sum(dim=-1).mean()


def loss_fn(model, pos, neg_tail):
    head, rel, tail = pos.unbind(dim=1)
    pos_score = model(head, rel, tail)
    neg_score = model(head[:, None], rel[:, None], neg_tail)
    weights = F.softmax(ALPHA * neg_score, dim=1)
    pos_loss = -F.logsigmoid(pos_score).mean()
    neg_loss = -(weights * F.logsigmoid(-neg_score)).sum(dim=1).mean()
    return 0.5 * (pos_loss + neg_loss) + N3 * model.penalty(head, tail)


def train(steps=4, dump=None, dump_at=3):
    torch.manual_seed(23)
    device = torch_xla.device()
    model = RotatE(torch.randn(ENTITIES, LITERALS))
    data = [(torch.stack([torch.randint(ENTITIES, (7,)), torch.randint(RELATIONS, (7,)),
                          torch.randint(ENTITIES, (7,))], dim=1),
             torch.randint(ENTITIES, (7, 5))) for _ in range(steps)]
    model.to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-8)
    for group in opt.param_groups:
        for p in group["params"]:
            opt.state[p]["sum"] = opt.state[p]["sum"].to(device)
    losses = []
    for step, (pos, neg) in enumerate(data, start=1):
        pos, neg = pos.to(device), neg.to(device)
        opt.zero_grad()
        loss = loss_fn(model, pos, neg)
        loss.backward()
        opt.step()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        if dump and step == dump_at:
            live = [loss.detach(), norm]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["sum"]]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append((loss.item(), norm.item()))
    return losses


if __name__ == "__main__":
    print(train(dump=sys.argv[1] if len(sys.argv) > 1 else None))
