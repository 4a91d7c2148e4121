"""Two-tower retrieval of library holdings: reader tower over the loan history, item tower, in-batch softmax with
a correction for the sampling probability of the items. torch_xla."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ITEMS, SUBJECTS, BRANCHES, EMB, HID, OUT, HIST, BATCH = 40, 9, 6, 10, 16, 8, 5, 8
TEMPERATURE = 0.07


class ItemTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(ITEMS, EMB)
        self.subject = nn.Embedding(SUBJECTS, EMB)
        self.fc1 = nn.Linear(2 * EMB + 1, HID)
        self.fc2 = nn.Linear(HID, OUT)

    def forward(self, item, subject, age):
        x = torch.cat([self.item(item), self.subject(subject), torch.log1p(age).unsqueeze(-1)], -1)
        return self.fc2(F.elu(self.fc1(x)))


class ReaderTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.hist = nn.Embedding(ITEMS + 1, EMB, padding_idx=0)
        self.branch = nn.Embedding(BRANCHES, EMB)
        self.cross = nn.Linear(2 * EMB, 2 * EMB)
        self.fc1 = nn.Linear(2 * EMB, HID)
        self.fc2 = nn.Linear(HID, OUT)

    def pool(self, history):
        e = self.hist(history)
        there = (history > 0).to(e.dtype).unsqueeze(-1)
        n = there.sum(1).clamp(min=1.0)
        return (e * there).sum(1) / n

    def forward(self, history, branch):
        x0 = torch.cat([self.pool(history), self.branch(branch)], -1)
        x = x0 * self.cross(x0) + x0
        return self.fc2(F.elu(self.fc1(x)))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.reader = ReaderTower()
        self.items = ItemTower()

    def forward(self, history, branch, item, subject, age):
        r = F.normalize(self.reader(history, branch), dim=-1)
        i = F.normalize(self.items(item, subject, age), dim=-1)
        return r @ i.t()


def retrieval_loss(scores, item, log_q, weight):
    logits = scores / TEMPERATURE
    logits = logits - log_q.unsqueeze(0)
    # the same item elsewhere in the batch is no negative
    same = item.unsqueeze(0) == item.unsqueeze(1)
    eye = torch.eye(len(item), dtype=torch.bool, device=item.device)
    logits = logits.masked_fill(same & ~eye, -1e4)
    ce = F.cross_entropy(logits, torch.arange(len(item), device=item.device), reduction="none")
    return (ce * weight).sum() / weight.sum()


def train_step(model, opt, b):
    opt.zero_grad()
    scores = model(b["history"], b["branch"], b["item"], b["subject"], b["age"])
    loss = retrieval_loss(scores, b["item"], b["log_q"], b["weight"])
    loss.backward()
    opt.step()
    return loss.detach()


def make_batch(gen, dev):
    n = torch.randint(1, HIST + 1, (BATCH, 1), generator=gen)
    hist = torch.randint(1, ITEMS + 1, (BATCH, HIST), generator=gen) * (torch.arange(HIST) < n)
    item = torch.randint(0, ITEMS, (BATCH,), generator=gen)
    b = {
        "history": hist,
        "branch": torch.randint(0, BRANCHES, (BATCH,), generator=gen),
        "item": item,
        "subject": item % SUBJECTS,
        "age": torch.rand(BATCH, generator=gen) * 30,
        "log_q": -torch.log(item + 2.0),
        "weight": torch.rand(BATCH, generator=gen) + 0.5,
    }
    return {k: v.to(dev) for k, v in b.items()}


def live(model, opt):
    ps = list(model.parameters())
    return ps + [p.grad for p in ps] + [opt.state[p]["sum"] for p in ps]


def main(path):
    torch.manual_seed(31)
    dev = torch_xla.device()
    model = TwoTower().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(32)
    for step in range(4):
        loss = train_step(model, opt, make_batch(gen, dev))
        if step == 3:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [loss]))
        torch_xla.sync()
        print(step, round(loss.item(), 6))


if __name__ == "__main__":
    main(sys.argv[1])
