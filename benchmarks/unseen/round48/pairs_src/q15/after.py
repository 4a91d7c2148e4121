"""Entire-space click / conversion model (ESMM) with an FM part, trained by Adagrad.

Run: XLA_HLO_DEBUG=1 XLA_IR_DEBUG=1 PJRT_DEVICE=CPU python after.py
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "b.hlo")
FIELDS = (30, 20, 12, 7)
DIM, HIDDEN, DENSE, BATCH = 6, 16, 3, 16
CLIP_VALUE = 1.0


class FMInteraction(nn.Module):
    def forward(self, emb):
        square_of_sum = emb.sum(dim=1).pow(2)
        sum_of_square = emb.pow(2).sum(dim=1)
        return 0.5 * (square_of_sum - sum_of_square).sum(dim=1)


class Tower(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.fc1 = nn.Linear(n_in, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN // 2)
        self.out = nn.Linear(HIDDEN // 2, 1)

    def forward(self, x):
        h = F.leaky_relu(self.fc1(x), 0.1)
        h = F.leaky_relu(self.fc2(h), 0.1)
        return self.out(h).squeeze(1)


class ESMM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, DIM) for n in FIELDS)
        self.biases = nn.ModuleList(nn.Embedding(n, 1) for n in FIELDS)
        self.fm = FMInteraction()
        width = DIM * len(FIELDS) + DENSE
        self.ctr = Tower(width)
        self.cvr = Tower(width)

    def forward(self, ids, dense):
        emb = torch.stack([t(ids[:, i]) for i, t in enumerate(self.tables)], dim=1)
        first = torch.cat([b(ids[:, i]) for i, b in enumerate(self.biases)], dim=1).sum(dim=1)
        x = torch.cat([emb.flatten(1), dense], dim=1)
        ctr_logit = self.ctr(x) + self.fm(emb) + first
        cvr_logit = self.cvr(x)
        return ctr_logit, cvr_logit


def esmm_loss(ctr_logit, cvr_logit, click, conversion):
    ctr_loss = F.binary_cross_entropy_with_logits(ctr_logit, click)
    # conversions only exist after a click
    cvr_loss = F.binary_cross_entropy_with_logits(cvr_logit, conversion, weight=click)
    return ctr_loss + cvr_loss


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.extend([p, p.grad, opt.state[p]["sum"]])
    return out


def main():
    torch.manual_seed(15)
    device = torch_xla.device()
    model = ESMM().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=1e-5)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(9)
    for step in range(1, 4):
        ids = torch.stack([torch.randint(0, n, (BATCH,), generator=gen) for n in FIELDS], 1)
        dense = torch.randn(BATCH, DENSE, generator=gen).to(device)
        click = (torch.rand(BATCH, generator=gen) < 0.4).float()
        conversion = click * (torch.rand(BATCH, generator=gen) < 0.5).float()
        ids, click, conversion = ids.to(device), click.to(device), conversion.to(device)

        opt.zero_grad()
        ctr_logit, cvr_logit = model(ids, dense)
        loss = esmm_loss(ctr_logit, cvr_logit, click, conversion)
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), CLIP_VALUE)
        opt.step()
        if step == 2:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss)))
        torch_xla.sync()
        print(step, "%.6f" % loss.item())


if __name__ == "__main__":
    main()
