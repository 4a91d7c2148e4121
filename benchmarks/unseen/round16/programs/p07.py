"""Joint grading of fundus photographs: four heads on one trunk, uncertainty-weighted."""
import random
from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 24
TASKS = {
    "retinopathy": ("ordinal", 5),
    "macular_edema": ("ordinal", 3),
    "gradable": ("binary", 1),
    "cup_ratio": ("regression", 1),
}


class Fundus(Dataset):
    """Synthetic discs with lesions; each target is a simple function of the picture."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
        self.cup = torch.rand(n, generator=g) * 0.6 + 0.2
        self.grade = torch.randint(0, 5, (n,), generator=g)
        self.edema = torch.randint(0, 3, (n,), generator=g)
        self.blur = torch.randint(0, 2, (n,), generator=g)
        r = (xx ** 2 + yy ** 2).sqrt()[None]
        disc = torch.sigmoid((self.cup[:, None, None] - r) * 12)
        lesion = (torch.rand(n, SIZE, SIZE, generator=g) < 0.03 * self.grade[:, None, None]).float()
        swell = self.edema[:, None, None] * torch.exp(-8 * ((xx - 0.4) ** 2 + yy ** 2))[None]
        img = torch.stack([disc, lesion, swell], 1)
        soft = F.avg_pool2d(img, 5, stride=1, padding=2)
        self.img = torch.where(self.blur[:, None, None, None] == 1, soft, img)

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return {
            "image": self.img[i],
            "retinopathy": self.grade[i],
            "macular_edema": self.edema[i],
            "gradable": 1.0 - self.blur[i].float(),
            "cup_ratio": self.cup[i],
        }


class Trunk(nn.Sequential):
    def __init__(self, w=16):
        super().__init__(
            nn.Conv2d(3, w, 3, stride=2, padding=1), nn.GroupNorm(4, w), nn.GELU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * w), nn.GELU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.width = 2 * w


class GradingModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.heads = nn.ModuleDict({t: nn.Linear(self.trunk.width, k) for t, (_, k) in TASKS.items()})
        self.log_var = nn.ParameterDict({t: nn.Parameter(torch.zeros(())) for t in TASKS})

    def forward(self, image) -> Dict[str, torch.Tensor]:
        f = self.trunk(image)
        return {t: head(f) for t, head in self.heads.items()}


def task_loss(task, out, target):
    kind = TASKS[task][0]
    if kind == "ordinal":
        return F.cross_entropy(out, target)
    if kind == "binary":
        return F.binary_cross_entropy_with_logits(out.squeeze(-1), target)
    return F.smooth_l1_loss(out.squeeze(-1), target, beta=0.1)


class Objective:
    def __init__(self, model, seed):
        self.model = model
        self.rng = random.Random(seed)

    def __call__(self, outputs, batch):
        total = torch.zeros((), device=batch["image"].device)
        parts = {}
        for task in self.rng.sample(sorted(TASKS), len(TASKS)):
            loss = task_loss(task, outputs[task], batch[task])
            s = self.model.log_var[task]
            total = total + torch.exp(-s) * loss + 0.5 * s
            parts[task] = loss.detach()
        return total, parts


class Average:
    def __init__(self, device, beta=0.9):
        self.beta = beta
        self.value = {t: torch.ones((), device=device) for t in TASKS}

    def update(self, parts):
        for t in TASKS:
            self.value[t] = self.value[t] * self.beta + parts[t] * (1 - self.beta)

    def report(self):
        return "  ".join(f"{t} {v.item():.3f}" for t, v in self.value.items())


def run(epochs=2, batch=16, seed=21):
    torch.manual_seed(seed)
    device = torch_xla.device()
    loader = DataLoader(Fundus(batch * 17, seed), batch_size=batch, shuffle=True, drop_last=True)
    model = GradingModel().to(device)
    objective = Objective(model, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    average = Average(device)
    xm.mark_step()

    for epoch in range(epochs):
        for batch_cpu in loader:
            data = {k: v.to(device) for k, v in batch_cpu.items()}
            optimizer.zero_grad()
            loss, parts = objective(model(data["image"]), data)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            average.update(parts)
            xm.mark_step()
        print(f"epoch {epoch}: {average.report()}")


if __name__ == "__main__":
    run()
