"""Image-text model with three objectives in rotation: matching, captioning and tagging."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, TEXT, IMAGE, TAGS, DIM = 32, 8, 12, 5, 16


class Pairs:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(TAGS, 3, IMAGE, IMAGE, generator=self.g)

    def draw(self, n):
        tags = (torch.rand(n, TAGS, generator=self.g) < 0.4).float()
        image = torch.einsum('nt,tchw->nchw', tags, self.proto)
        image = image + 0.2 * torch.randn(image.shape, generator=self.g)
        words = torch.randint(TAGS + 1, VOCAB, (n, TEXT), generator=self.g)
        words[:, :TAGS] = torch.where(tags > 0, torch.arange(1, TAGS + 1), words[:, :TAGS])
        return {'image': image, 'text': words, 'tags': tags}


class ImageTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 4, stride=4)
        self.mix = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2)
        return h + self.mix(h)


class TextTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.ff = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.GELU())

    def forward(self, ids):
        h = self.emb(ids)
        return h + self.ff(h)


class Objective(nn.Module):
    batch = 8
    lr = 2e-3


class Matching(Objective):
    batch = 16

    def __init__(self, image, text):
        super().__init__()
        self.image, self.text = image, text
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, b):
        i = F.normalize(self.image(b['image']).mean(1), dim=-1)
        t = F.normalize(self.text(b['text']).mean(1), dim=-1)
        logits = self.scale.exp() * i @ t.t()
        y = torch.arange(len(i), device=i.device)
        return 0.5 * (F.cross_entropy(logits, y) + F.cross_entropy(logits.t(), y))


class Captioning(Objective):
    def __init__(self, image, text):
        super().__init__()
        self.image, self.text = image, text
        self.cross = nn.MultiheadAttention(DIM, 2, batch_first=True)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, b):
        memory = self.image(b['image'])
        h = self.text(b['text'][:, :-1])
        h = h + self.cross(h, memory, memory, need_weights=False)[0]
        return F.cross_entropy(self.out(h).flatten(0, 1), b['text'][:, 1:].flatten())


class Tagging(Objective):
    lr = 5e-3

    def __init__(self, image):
        super().__init__()
        self.image = image
        self.fc = nn.Linear(DIM, TAGS)

    def forward(self, b):
        return F.binary_cross_entropy_with_logits(self.fc(self.image(b['image']).mean(1)), b['tags'])


class Rotation:
    def __init__(self, objectives, device):
        self.objectives = objectives
        self.device = device
        self.opts = {k: torch.optim.AdamW(o.parameters(), lr=o.lr) for k, o in objectives.items()}
        self.avg = {}

    def step(self, name, data):
        objective, opt = self.objectives[name], self.opts[name]
        batch = {k: v.to(self.device) for k, v in data.draw(objective.batch).items()}
        opt.zero_grad()
        loss = objective(batch)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        xm.add_step_closure(self.record, args=(name, loss.detach()))

    def record(self, name, loss):
        value = loss.item()
        self.avg[name] = value if name not in self.avg else 0.8 * self.avg[name] + 0.2 * value


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    image, text = ImageTower(), TextTower()
    objectives = {'match': Matching(image, text), 'caption': Captioning(image, text), 'tag': Tagging(image)}
    for o in objectives.values():
        o.to(device)
    rotation, data = Rotation(objectives, device), Pairs(15)
    torch_xla.sync()
    order = itertools.cycle(['match', 'caption', 'match', 'tag'])
    for step in range(1, 41):
        rotation.step(next(order), data)
        if step % 10 == 0:
            print(step, {k: round(v, 3) for k, v in rotation.avg.items()})


if __name__ == '__main__':
    main()
