"""Drug-repurposing knowledge graph: RotatE scores with self-adversarial negative sampling."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class RotatE(nn.Module):
    def __init__(self, n_ent, n_rel, n_feat, dim=8, gamma=6.0):
        super().__init__()
        self.gamma = gamma
        self.range = (gamma + 2.0) / dim
        self.entity = nn.Embedding(n_ent, 2 * dim)
        self.phase = nn.Embedding(n_rel, dim)
        nn.init.uniform_(self.entity.weight, -self.range, self.range)
        nn.init.uniform_(self.phase.weight, -self.range, self.range)
        self.feat = nn.Sequential(
            nn.Linear(n_feat, 12), nn.LeakyReLU(0.1), nn.Linear(12, 2 * dim, bias=False))

    def lookup(self, idx, feats):
        return self.entity(idx) + self.feat(F.embedding(idx, feats))

    def score(self, head, rel, tail):
        re_h, im_h = head.chunk(2, dim=-1)
        re_t, im_t = tail.chunk(2, dim=-1)
        theta = self.phase(rel) * (3.141592653589793 / self.range)
        re_r, im_r = torch.cos(theta), torch.sin(theta)
        re = re_h * re_r - im_h * im_r - re_t
        im = re_h * im_r + im_h * re_r - im_t
        dist = torch.sqrt(re * re + im * im + 1e-9).sum(-1)
        return self.gamma - dist


def margin_loss(pos, neg, weight, temperature=0.5):
    adv = F.softmax(neg * temperature, dim=1).detach()
    neg_term = (adv * F.logsigmoid(-neg)).sum(dim=1)
    pos_term = F.logsigmoid(pos).squeeze(1)
    pos_loss = -(weight * pos_term).sum() / weight.sum()
    neg_loss = -(weight * neg_term).sum() / weight.sum()
    return 0.5 * (pos_loss + neg_loss)


def train_step(model, opt, batch, feats, lam=1e-4):
    opt.zero_grad()
    h = model.lookup(batch["head"], feats).unsqueeze(1)
    t = model.lookup(batch["tail"], feats).unsqueeze(1)
    n = model.lookup(batch["neg"], feats)
    rel = batch["rel"].unsqueeze(1)
    pos = model.score(h, rel, t)
    neg = model.score(h, rel, n)
    loss = margin_loss(pos, neg, batch["weight"])
    reg = lam * (h.abs() ** 3).sum(-1).mean() + lam * (t.abs() ** 3).sum(-1).mean()
    (loss + reg).backward()
    opt.step()
    return loss.detach(), reg.detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts.append(p)
        ts.append(p.grad)
        for v in opt.state[p].values():
            if torch.is_tensor(v) and v.device.type == "xla":
                ts.append(v)
    return ts


def main(out):
    torch.manual_seed(5)
    dev = xm.xla_device()
    n_ent, n_rel, n_feat = 30, 4, 7
    model = RotatE(n_ent, n_rel, n_feat).to(dev)
    feats = torch.randn(n_ent, n_feat).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    for it in range(4):
        batch = {
            "head": torch.randint(0, n_ent, (6,)),
            "tail": torch.randint(0, n_ent, (6,)),
            "rel": torch.randint(0, n_rel, (6,)),
            "neg": torch.randint(0, n_ent, (6, 5)),
            "weight": torch.rand(6) + 0.1,
        }
        batch = {k: v.to(dev) for k, v in batch.items()}
        loss, reg = train_step(model, opt, batch, feats)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, reg]))
            open(out, "w").write(text)
        torch_xla.sync()
        print(it, loss.item(), reg.item())


if __name__ == "__main__":
    main(sys.argv[1])
