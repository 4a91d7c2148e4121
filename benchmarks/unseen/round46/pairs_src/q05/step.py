"""Neural topic model (logistic-normal prior) on bag-of-words, KL weight warmed up over updates.

usage: step.py A.hlo B.hlo   writes the pending graph of update 5 to A and of update 9 to B
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, TOPICS, HID, DOCS = 40, 6, 14, 8
WARMUP = 8


class TopicModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(VOCAB, HID)
        self.fc2 = nn.Linear(HID, HID)
        self.mu = nn.Linear(HID, TOPICS)
        self.logvar = nn.Linear(HID, TOPICS)
        self.mu_bn = nn.BatchNorm1d(TOPICS, affine=False)
        self.topics = nn.Linear(TOPICS, VOCAB, bias=False)
        self.background = nn.Parameter(torch.zeros(VOCAB))
        a = torch.full((TOPICS,), 0.3)
        self.register_buffer("prior_mu", a.log() - a.log().mean())
        self.register_buffer("prior_var", (1 / a) * (1 - 2 / TOPICS) + (1 / a).sum() / TOPICS ** 2)

    def forward(self, bow, eps):
        h = F.softplus(self.fc1(torch.log1p(bow)))
        h = F.dropout(F.softplus(self.fc2(h)), 0.1, self.training)
        mu, logvar = self.mu_bn(self.mu(h)), self.logvar(h)
        theta = torch.softmax(mu + eps * torch.exp(0.5 * logvar), dim=-1)
        logits = self.topics(theta) + self.background
        return F.log_softmax(logits, dim=-1), mu, logvar

    def kl(self, mu, logvar):
        var = logvar.exp()
        d = mu - self.prior_mu
        return 0.5 * (var / self.prior_var + d * d / self.prior_var
                      + self.prior_var.log() - logvar - 1).sum(dim=-1)


def kl_weight(update):
    return min(1.0, (update + 1) / WARMUP)


def main(out_a, out_b):
    device = xm.xla_device()
    torch.manual_seed(101)
    xm.set_rng_state(101)
    model = TopicModel().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.95, 0.999))
    gen = torch.Generator().manual_seed(1)
    dumps = {5: out_a, 9: out_b}
    for update in range(11):
        bow = torch.poisson(torch.full((DOCS, VOCAB), 0.8), generator=gen).to(device)
        eps = torch.randn(DOCS, TOPICS, generator=gen).to(device)
        logp, mu, logvar = model(bow, eps)
        nll = -(bow * logp).sum(dim=-1)
        loss = (nll + kl_weight(update) * model.kl(mu, logvar)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if update in dumps:
            live = [p for p in model.parameters()]
            live += [b for n, b in model.named_buffers() if "running" in n or "tracked" in n]
            for p in model.parameters():
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            live.append(loss)
            with open(dumps[update], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(update, round(kl_weight(update), 4), loss.item())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
