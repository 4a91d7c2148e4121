"""RotatE with self-adversarial negative sampling on a small drug-target knowledge graph."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ENTITIES, RELATIONS, DIM, BATCH, NEG = 40, 5, 8, 6, 7
GAMMA, EPS = 6.0, 2.0


class RotatE(nn.Module):
    def __init__(self):
        super().__init__()
        span = (GAMMA + EPS) / DIM
        self.span = span
        self.entity = nn.Parameter(torch.empty(ENTITIES, 2 * DIM).uniform_(-span, span))
        self.relation = nn.Parameter(torch.empty(RELATIONS, DIM).uniform_(-span, span))
        self.rel_bias = nn.Parameter(torch.zeros(RELATIONS))

    def score(self, head, rel, tail, bias):
        re_h, im_h = head.chunk(2, dim=-1)
        re_t, im_t = tail.chunk(2, dim=-1)
        phase = rel / (self.span / math.pi)
        re_r, im_r = torch.cos(phase), torch.sin(phase)
        re = re_h * re_r - im_h * im_r - re_t
        im = re_h * im_r + im_h * re_r - im_t
        dist = torch.sqrt(re.pow(2) + im.pow(2) + 1e-9).sum(dim=-1)
        return GAMMA - dist + bias

    def forward(self, triples, neg_tail, neg_head):
        h, r, t = triples.unbind(dim=1)
        eh = self.entity[h].unsqueeze(1)
        er = self.relation[r].unsqueeze(1)
        et = self.entity[t].unsqueeze(1)
        b = self.rel_bias[r].unsqueeze(1)
        pos = self.score(eh, er, et, b).squeeze(1)
        tails = self.score(eh, er, self.entity[neg_tail], b)
        heads = self.score(self.entity[neg_head], er, et, b)
        return pos, tails, heads


def adversarial_nll(neg, temperature=0.5):
    weight = F.softmax(neg * temperature, dim=1).detach()
    return -(weight * F.logsigmoid(-neg)).sum(dim=1)


def regularizer(model):
    ent = model.entity.abs().pow(3).sum() / ENTITIES
    rel = model.relation.abs().pow(3).sum() / RELATIONS
    return ent + rel


def objective(model, triples, neg_tail, neg_head, subsample, reg=1e-3):
    pos, tails, heads = model(triples, neg_tail, neg_head)
    pos_nll = -F.logsigmoid(pos)
    neg_nll = 0.5 * (adversarial_nll(tails) + adversarial_nll(heads))
    w = subsample / subsample.sum()
    return 0.5 * ((w * pos_nll).sum() + (w * neg_nll).sum()) + reg * regularizer(model)


def project(model):
    # keep the phases in [-span, span]
    with torch.no_grad():
        model.relation.clamp_(-model.span, model.span)


def main():
    torch.manual_seed(17)
    dev = torch_xla.device()
    model = RotatE().to(dev)
    params = list(model.parameters())
    opt = torch.optim.Adagrad(params, lr=0.05, foreach=False)

    for it in range(4):
        triples = torch.stack([torch.randint(0, ENTITIES, (BATCH,)),
                               torch.randint(0, RELATIONS, (BATCH,)),
                               torch.randint(0, ENTITIES, (BATCH,))], dim=1).to(dev)
        neg_tail = torch.randint(0, ENTITIES, (BATCH, NEG)).to(dev)
        neg_head = torch.randint(0, ENTITIES, (BATCH, NEG)).to(dev)
        subsample = (torch.rand(BATCH) + 0.1).to(dev)

        opt.zero_grad(set_to_none=True)
        loss = objective(model, triples, neg_tail, neg_head, subsample)
        loss.backward()
        opt.step()
        project(model)

        if it == 2:
            live = [loss] + params + [p.grad for p in params]
            live += [opt.state[p]["sum"] for p in params]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


main()
