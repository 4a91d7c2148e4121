import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from scipy.optimize import linear_sum_assignment

NUM_CLASSES = 5
NUM_QUERIES = 12


def cxcywh_to_xyxy(b):
    c, s = b[..., :2], b[..., 2:]
    return torch.cat([c - s / 2, c + s / 2], -1)


def giou(a, b):
    a, b = cxcywh_to_xyxy(a), cxcywh_to_xyxy(b)
    area_a = (a[:, 2:] - a[:, :2]).clamp(min=0).prod(-1)
    area_b = (b[:, 2:] - b[:, :2]).clamp(min=0).prod(-1)
    wh = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    inter = wh[:, 0] * wh[:, 1]
    union = area_a + area_b - inter
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp(min=0)
    hull = hull[:, 0] * hull[:, 1]
    return inter / (union + 1e-6) - (hull - union) / (hull + 1e-6)


class Detector(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.stem = nn.Conv2d(3, d, 4, stride=4)
        self.query = nn.Embedding(NUM_QUERIES, d)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.cls = nn.Linear(d, NUM_CLASSES + 1)
        self.box = nn.Linear(d, 4)

    def forward(self, images):
        mem = self.stem(images).flatten(2).transpose(1, 2)
        q = self.query.weight.unsqueeze(0).expand(images.size(0), -1, -1)
        h = q + self.attn(q, mem, mem, need_weights=False)[0]
        h = h + self.ffn(self.norm(h))
        return {"logits": self.cls(h), "boxes": self.box(h).sigmoid()}


class Matcher:
    @torch.no_grad()
    def __call__(self, out, targets):
        prob = out["logits"].softmax(-1).cpu()
        boxes = out["boxes"].cpu()
        pairs = []
        for i, t in enumerate(targets):
            cost = 5 * torch.cdist(boxes[i], t["boxes"], p=1) - prob[i][:, t["labels"]]
            r, c = linear_sum_assignment(cost.numpy())
            pairs.append((torch.as_tensor(r), torch.as_tensor(c)))
        return pairs


class SetCriterion(nn.Module):
    def __init__(self, matcher, eos=0.1):
        super().__init__()
        self.matcher = matcher
        w = torch.ones(NUM_CLASSES + 1)
        w[-1] = eos
        self.register_buffer("weight", w)

    def forward(self, out, targets, log=False):
        device = out["logits"].device
        pairs = self.matcher(out, targets)
        batch = torch.cat([torch.full_like(r, i) for i, (r, _) in enumerate(pairs)])
        query = torch.cat([r for r, _ in pairs])
        labels = torch.cat([t["labels"][c] for t, (_, c) in zip(targets, pairs)])
        gt = torch.cat([t["boxes"][c] for t, (_, c) in zip(targets, pairs)])

        classes = torch.full(out["logits"].shape[:2], NUM_CLASSES)
        classes[batch, query] = labels
        classes = classes.to(device)
        idx = (batch * NUM_QUERIES + query).to(device)
        gt = gt.to(device)
        pred = out["boxes"].flatten(0, 1).index_select(0, idx)

        losses = {
            "ce": F.cross_entropy(out["logits"].transpose(1, 2), classes, self.weight),
            "l1": 5.0 * F.l1_loss(pred, gt, reduction="sum") / max(len(gt), 1),
            "giou": 2.0 * (1 - giou(pred, gt)).mean(),
        }
        stats = {}
        if log:
            with torch.no_grad():
                hit = out["logits"].argmax(-1) == classes
                fg = classes != NUM_CLASSES
                stats["class_error"] = 100 - 100.0 * (hit & fg).sum() / fg.sum()
                stats["cardinality"] = (out["logits"].argmax(-1) != NUM_CLASSES).sum(1).float().mean()
        return losses, stats


def loader(n_batches, per_image=(3, 2, 4, 3), seed=0):
    g = torch.Generator().manual_seed(seed)
    for b in range(n_batches):
        images = torch.rand(4, 3, 16, 16, generator=g)
        targets = []
        for i in range(4):
            n = per_image[i] + (1 if b >= 4 and i % 2 == 0 else 0)
            wh = 0.1 + 0.3 * torch.rand(n, 2, generator=g)
            c = 0.2 + 0.6 * torch.rand(n, 2, generator=g)
            targets.append({"boxes": torch.cat([c, wh], -1),
                            "labels": torch.randint(0, NUM_CLASSES, (n,), generator=g)})
        yield images, targets


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector().to(device)
    criterion = SetCriterion(Matcher()).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step, (images, targets) in enumerate(loader(7)):
        log = step % 3 == 2
        out = model(images.to(device))
        losses, stats = criterion(out, targets, log=log)
        loss = sum(losses.values())
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if log:
            print(step, loss.item(), {k: round(v.item(), 2) for k, v in stats.items()})


if __name__ == "__main__":
    main()
