"""Click-through prediction, DeepFM with sum-pooled history, Adagrad, gradient clipping."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()
FIELDS = (7, 5, 9)


class DeepFM(nn.Module):
    def __init__(self, fields=FIELDS, items=13, dim=4, hidden=12):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(n, dim) for n in fields])
        self.first = nn.ModuleList([nn.Embedding(n, 1) for n in fields])
        self.items = nn.Embedding(items, dim, padding_idx=0)
        self.fc1 = nn.Linear(dim * (len(fields) + 1), hidden)
        self.fc2 = nn.Linear(hidden, 1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, cats, hist):
        vecs = [e(cats[:, i]) for i, e in enumerate(self.emb)]
        mask = (hist != 0).float()
        pooled = (self.items(hist) * mask[..., None]).sum(1)
        pooled = pooled / mask.sum(1, keepdim=True).clamp(min=1.0)
        stack = torch.stack(vecs + [pooled], dim=1)
        square_of_sum = stack.sum(1) ** 2
        sum_of_square = (stack ** 2).sum(1)
        fm = 0.5 * (square_of_sum - sum_of_square).sum(1)
        linear = sum(e(cats[:, i]).squeeze(1) for i, e in enumerate(self.first))
        deep = self.fc2(F.relu(self.fc1(stack.flatten(1)))).squeeze(1)
        return self.bias + linear + fm + deep


def train_step(model, opt, cats, hist, click, weight):
    opt.zero_grad()
    logits = model(cats, hist)
    loss = F.binary_cross_entropy_with_logits(logits, click, weight=weight)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    opt.step()
    return loss.detach(), norm


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path, steps=2):
    torch.manual_seed(17)
    model = DeepFM().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, lr_decay=1e-3)
    for p in model.parameters():
        opt.state[p]["sum"] = opt.state[p]["sum"].to(dev)
    batches = []
    for _ in range(steps):
        cats = torch.stack([torch.randint(0, n, (8,)) for n in FIELDS], dim=1)
        batches.append((cats, torch.randint(0, 13, (8, 5)), (torch.rand(8) < 0.3).float(), torch.rand(8) + 0.5))
    torch_xla.sync()
    for i, batch in enumerate(batches):
        loss, norm = train_step(model, opt, *[t.to(dev) for t in batch])
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, norm)))
        torch_xla.sync()
        print(i, loss.item(), norm.item())


if __name__ == "__main__":
    main(sys.argv[1])
