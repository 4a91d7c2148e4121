"""Fine-tuning in phases: head only, then everything, then weight averaging."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES, BATCH = 5, 10
PHASES = (("head", 12), ("all", 16), ("average", 12))


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(4, c), nn.GroupNorm(4, c)

    def forward(self, x):
        return x + self.b(F.relu(self.nb(self.a(F.relu(self.na(x))))))


class Net(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 4, stride=4)
        self.body = nn.Sequential(Residual(c), Residual(c))
        self.head = nn.Linear(c, CLASSES)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))

    def set_trainable(self, phase):
        for name, p in self.named_parameters():
            p.requires_grad_(phase != "head" or name.startswith("head"))


class Averager:
    def __init__(self, model):
        self.params = {n: p.detach().clone() for n, p in model.named_parameters()}
        self.count = 1

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        for n, p in model.named_parameters():
            avg = self.params[n]
            avg.add_((p.detach() - avg) * (1.0 / self.count))

    @torch.no_grad()
    def copy_to(self, model):
        for n, p in model.named_parameters():
            p.copy_(self.params[n])


class Images:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(CLASSES, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def batch(self, n=BATCH):
        y = torch.randint(0, CLASSES, (n,), generator=self.g)
        x = self.proto[y] + 0.8 * torch.randn(n, 3, 32, 32, generator=self.g)
        top = int(torch.randint(0, 5, (1,), generator=self.g))
        left = int(torch.randint(0, 5, (1,), generator=self.g))
        x = F.pad(x, (2, 2, 2, 2))[:, :, top:top + 32, left:left + 32]
        return x.contiguous(), y


class FineTuner:
    def __init__(self, device):
        self.device = device
        self.model = Net().to(device)
        held_out = Images(2)
        self.train_data, self.valid = Images(1), [held_out.batch() for _ in range(3)]
        self.averager = None

    def optimizer(self, phase):
        params = [p for p in self.model.parameters() if p.requires_grad]
        lr = {"head": 5e-3, "all": 1e-3, "average": 5e-4}[phase]
        return torch.optim.AdamW(params, lr=lr, weight_decay=0.01)

    def run_phase(self, phase, steps):
        self.model.set_trainable(phase)
        opt = self.optimizer(phase)
        if phase == "average":
            self.averager = Averager(self.model)
            torch_xla.sync()
        for i in range(steps):
            loss = self.step(opt)
            if self.averager is not None and i % 3 == 2:
                self.averager.update(self.model)
                torch_xla.sync()
        print(phase, f"loss {loss.item():.4f} accuracy {self.validate():.3f}")

    def step(self, opt):
        x, y = self.train_data.batch()
        mix = 0.9 + 0.05 * float(torch.rand(1, generator=self.train_data.g))
        logits = self.model(x.to(self.device) * mix)
        loss = F.cross_entropy(logits, y.to(self.device), label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = 0
        for x, y in self.valid:
            hit = (self.model(x.to(self.device)).argmax(-1) == y.to(self.device)).sum()
            torch_xla.sync()
            hits += hit.item()
        self.model.train()
        return hits / (len(self.valid) * BATCH)


def main():
    torch.manual_seed(0)
    tuner = FineTuner(torch_xla.device())
    torch_xla.sync()
    for phase, steps in PHASES:
        tuner.run_phase(phase, steps)
    tuner.averager.copy_to(tuner.model)
    torch_xla.sync()
    print("averaged accuracy", round(tuner.validate(), 3))


if __name__ == "__main__":
    main()
