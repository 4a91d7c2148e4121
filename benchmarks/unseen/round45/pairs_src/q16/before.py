"""Two-tower retrieval for podcasts: in-batch sampled softmax with logQ correction."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUT = sys.argv[1]
B, HIST, USERS, SHOWS, TOPICS, DIM = 8, 5, 30, 40, 6, 8
TEMPERATURE = 0.07
LABEL_SMOOTHING = 0.05


class UserTower(nn.Module):
    def __init__(self, show_emb):
        super().__init__()
        self.show_emb = show_emb
        self.user_emb = nn.Embedding(USERS, DIM)
        self.query = nn.Parameter(torch.randn(DIM) * 0.2)
        self.fc1 = nn.Linear(2 * DIM, 16)
        self.fc2 = nn.Linear(16, DIM)

    def forward(self, user, history, hist_len):
        h = self.show_emb(history)
        pos = torch.arange(history.size(1), device=history.device)
        pad = pos.unsqueeze(0) >= hist_len.unsqueeze(1)
        att = (h @ self.query).masked_fill(pad, -1e4)
        att = torch.softmax(att, dim=1)
        pooled = (att.unsqueeze(-1) * h).sum(1)
        x = torch.cat([self.user_emb(user), pooled], dim=1)
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=1)


class ShowTower(nn.Module):
    def __init__(self, show_emb):
        super().__init__()
        self.show_emb = show_emb
        self.topic_emb = nn.Embedding(TOPICS, 4)
        self.fc1 = nn.Linear(DIM + 5, 16)
        self.fc2 = nn.Linear(16, DIM)

    def forward(self, show, topic, minutes):
        m = torch.log1p(minutes).unsqueeze(1)
        x = torch.cat([self.show_emb(show), self.topic_emb(topic), m], dim=1)
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        emb = nn.Embedding(SHOWS, DIM)
        self.user, self.show = UserTower(emb), ShowTower(emb)


def retrieval_loss(u, s, show_ids, log_q):
    logits = u @ s.t() / TEMPERATURE
    logits = logits - log_q.unsqueeze(0)
    same = show_ids.unsqueeze(0) == show_ids.unsqueeze(1)
    eye = torch.eye(show_ids.size(0), dtype=torch.bool, device=u.device)
    logits = logits.masked_fill(same & ~eye, -1e4)
    logp = F.log_softmax(logits, dim=1)
    nll = -logp.diagonal().mean()
    uniform = -(logp * (~same | eye)).mean()
    return (1 - LABEL_SMOOTHING) * nll + LABEL_SMOOTHING * uniform


def make_batch(g, dev):
    ri = lambda hi, *shape: torch.randint(0, hi, shape, generator=g)
    show = ri(SHOWS, B)
    data = dict(
        user=ri(USERS, B),
        history=ri(SHOWS, B, HIST),
        hist_len=ri(HIST, B) + 1,
        show=show,
        topic=show % TOPICS,
        minutes=torch.rand(B, generator=g) * 90,
        log_q=torch.log(torch.rand(B, generator=g) * 0.05 + 1e-3),
    )
    return {k: v.to(dev) for k, v in data.items()}


def main():
    torch.manual_seed(2)
    dev = torch_xla.device()
    model = TwoTower().to(dev)
    params = list(model.parameters())
    opt = torch.optim.Adam(params, lr=5e-3, weight_decay=1e-4)
    g = torch.Generator().manual_seed(8)
    for it in range(3):
        b = make_batch(g, dev)
        opt.zero_grad(set_to_none=True)
        u = model.user(b["user"], b["history"], b["hist_len"])
        s = model.show(b["show"], b["topic"], b["minutes"])
        loss = retrieval_loss(u, s, b["show"], b["log_q"])
        with torch.no_grad():
            hit = ((u @ s.t()).argmax(1) == torch.arange(B, device=dev)).float().mean()
        loss.backward()
        opt.step()
        if it == 2:
            tensors = [loss, hit, u, s]
            for p in params:
                tensors += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(tensors))
        torch_xla.sync()
        print(it, loss.item(), hit.item())


if __name__ == "__main__":
    main()
