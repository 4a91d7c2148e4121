"""Knowledge distillation for a tiny ViT: hint phase, then logits; FSDP + checkpointing."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.distributed.fsdp import checkpoint_module


@dataclass
class DistillConfig:
    image: int = 16
    patch: int = 4
    classes: int = 8
    teacher: tuple = (48, 2)
    student: tuple = (24, 2)
    batch: int = 8
    teacher_steps: int = 12
    hint_steps: int = 15
    steps: int = 90
    temperature: float = 3.0
    alpha: float = 0.7
    eval_every: int = 15
    lr: float = 2e-3


class Layer(nn.Module):
    def __init__(self, d, heads=2):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.o(y)
        return x + self.ff(self.n2(x))


class ViT(nn.Module):
    def __init__(self, cfg, dim, depth, wrap=lambda m: m):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, cfg.patch, stride=cfg.patch)
        self.pos = nn.Parameter(0.02 * torch.randn((cfg.image // cfg.patch) ** 2, dim))
        self.layers = nn.ModuleList(wrap(Layer(dim)) for _ in range(depth))
        self.head = nn.Linear(dim, cfg.classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1)), x


class Textures:
    def __init__(self, cfg, seed):
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)
        ax = torch.arange(cfg.image).float()
        self.yy, self.xx = torch.meshgrid(ax, ax, indexing="ij")

    def batch(self):
        y = torch.randint(self.cfg.classes, (self.cfg.batch,), generator=self.g)
        a = (y.float() * 3.1416 / self.cfg.classes)[:, None, None]
        wave = torch.sin(a.cos() * self.xx + a.sin() * self.yy)
        x = wave[:, None].repeat(1, 3, 1, 1)
        return x + 0.4 * torch.randn(x.shape, generator=self.g), y


class Distiller:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.teacher = ViT(cfg, *cfg.teacher).to(self.device)
        student = ViT(cfg, *cfg.student, wrap=lambda m: checkpoint_module(m.to(self.device)))
        self.student = FSDP(student.to(self.device))
        self.hint = nn.Linear(cfg.student[0], cfg.teacher[0]).to(self.device)
        self.data, self.valid = Textures(cfg, 1), Textures(cfg, 2)

    def fit_teacher(self):
        opt = torch.optim.AdamW(self.teacher.parameters(), lr=self.cfg.lr)
        for _ in range(self.cfg.teacher_steps):
            x, y = (t.to(self.device) for t in self.data.batch())
            opt.zero_grad()
            loss = F.cross_entropy(self.teacher(x)[0], y)
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
        self.teacher.requires_grad_(False).eval()
        print(f"teacher loss {loss.item():.3f}", flush=True)

    def hint_loss(self, x, y):
        with torch.no_grad():
            _, target = self.teacher(x)
        _, features = self.student(x)
        return F.mse_loss(self.hint(features), target)

    def logit_loss(self, x, y):
        temp = self.cfg.temperature
        with torch.no_grad():
            soft = F.softmax(self.teacher(x)[0] / temp, dim=-1)
        logits, _ = self.student(x)
        kd = F.kl_div(F.log_softmax(logits / temp, dim=-1), soft, reduction="batchmean")
        return self.cfg.alpha * temp ** 2 * kd + (1 - self.cfg.alpha) * F.cross_entropy(logits, y)

    @torch.no_grad()
    def evaluate(self, batches=3):
        correct = torch.zeros((), device=self.device)
        for _ in range(batches):
            x, y = (t.to(self.device) for t in self.valid.batch())
            correct += (self.student(x)[0].argmax(-1) == y).float().mean()
            torch_xla.sync()
        return correct.item() / batches

    def run(self):
        self.fit_teacher()
        opt = torch.optim.AdamW([*self.student.parameters(), *self.hint.parameters()],
                                lr=self.cfg.lr)
        for step in range(self.cfg.steps):
            x, y = (t.to(self.device) for t in self.data.batch())
            criterion = self.hint_loss if step < self.cfg.hint_steps else self.logit_loss
            opt.zero_grad()
            loss = criterion(x, y)
            loss.backward()
            opt.step()
            torch_xla.sync()
            if (step + 1) % self.cfg.eval_every == 0:
                print(f"step {step + 1:3d} loss {loss.item():.3f} "
                      f"accuracy {self.evaluate():.2f}", flush=True)


if __name__ == "__main__":
    Distiller(DistillConfig()).run()
