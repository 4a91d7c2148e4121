# churn prediction, categorical embeddings + mlp
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CARDS = [12, 7, 30, 4]
N_NUM = 10
N_TRAIN, N_VALID = 1536, 512
BS = 128
EPOCHS = 2


def synth(n, rng):
    cat = np.stack([rng.integers(0, c, n) for c in CARDS], 1)
    num = rng.normal(size=(n, N_NUM)).astype(np.float32)
    score = num[:, 0] - 0.8 * num[:, 3] * num[:, 4] + 0.3 * (cat[:, 0] % 3) - 0.4 * (cat[:, 2] > 20)
    target = (score + 0.5 * rng.normal(size=n) > 0.2).astype(np.float32)
    return cat, num, target


class CategoryMLP(nn.Module):
    def __init__(self, cards, n_num, widths=(64, 32), p=0.1):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, min(8, (c + 1) // 2)) for c in cards)
        self.bn_num = nn.BatchNorm1d(n_num)
        size = sum(e.embedding_dim for e in self.embs) + n_num
        blocks = []
        for w in widths:
            blocks += [nn.Linear(size, w), nn.ReLU(), nn.BatchNorm1d(w), nn.Dropout(p)]
            size = w
        self.mlp = nn.Sequential(*blocks, nn.Linear(size, 1))

    def forward(self, cat, num):
        parts = [e(cat[:, i]) for i, e in enumerate(self.embs)]
        x = torch.cat(parts + [self.bn_num(num)], 1)
        return self.mlp(x).squeeze(1)


def auc(y, s):
    order = np.argsort(s)
    ranks = np.empty(len(s))
    ranks[order] = np.arange(1, len(s) + 1)
    pos = y == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


rng = np.random.default_rng(0)
torch.manual_seed(0)
device = xm.xla_device()

# the whole table fits on the device, so copy it once
cat_tr, num_tr, y_tr = (torch.from_numpy(a).to(device) for a in synth(N_TRAIN, rng))
cat_va, num_va, y_va = (torch.from_numpy(a) for a in synth(N_VALID, rng))
cat_va, num_va = cat_va.to(device), num_va.to(device)

model = CategoryMLP(CARDS, N_NUM).to(device)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)


def train_epoch(epoch):
    model.train()
    perm = torch.randperm(N_TRAIN).to(device)
    history = []
    for k, first in enumerate(range(0, N_TRAIN, BS)):
        rows = perm[first:first + BS]
        pred = model(cat_tr[rows], num_tr[rows])
        loss = F.binary_cross_entropy_with_logits(pred, y_tr[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        history.append(loss.detach())
        if k % 5 == 4:
            print(f"epoch {epoch} batch {k} loss {history[-1].item():.4f}")


def validate():
    model.eval()
    with torch.no_grad():
        scores = torch.sigmoid(model(cat_va, num_va))
    xm.mark_step()
    return auc(y_va.numpy(), scores.cpu().numpy())


for epoch in range(EPOCHS):
    train_epoch(epoch)
    print(f"epoch {epoch} valid auc {validate():.4f}")
