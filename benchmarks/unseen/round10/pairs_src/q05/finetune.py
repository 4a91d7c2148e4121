import torch
import torch.nn as nn
import torch_xla


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1 = nn.Conv2d(c, c, 3, padding=1)
        self.c2 = nn.Conv2d(c, c, 3, padding=1)
        self.n1 = nn.GroupNorm(2, c)
        self.n2 = nn.GroupNorm(2, c)

    def forward(self, x):
        y = torch.relu(self.n1(self.c1(x)))
        return torch.relu(x + self.n2(self.c2(y)))


class Backbone(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.stage1 = Residual(c)
        self.down = nn.Conv2d(c, 2 * c, 1, stride=2)
        self.stage2 = Residual(2 * c)

    def forward(self, x):
        return self.stage2(self.down(self.stage1(self.stem(x)))).mean((2, 3))


class Callback:
    def on_epoch_start(self, trainer, epoch): ...
    def on_step_end(self, trainer, loss): ...


class BackboneFinetuning(Callback):
    def __init__(self, unfreeze_at):
        self.unfreeze_at = unfreeze_at

    def on_epoch_start(self, trainer, epoch):
        if epoch == 0:
            for p in trainer.backbone.parameters():
                p.requires_grad_(False)
        if epoch == self.unfreeze_at:
            for p in trainer.backbone.stage2.parameters():
                p.requires_grad_(True)


class Printer(Callback):
    def __init__(self, every):
        self.every = every

    def on_step_end(self, trainer, loss):
        if trainer.global_step % self.every == 0:
            print(trainer.global_step, round(loss.item(), 4))


class Trainer:
    def __init__(self, callbacks, lr=0.01):
        self.device = torch_xla.device()
        self.backbone = Backbone().to(self.device)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 6)).to(self.device)
        self.callbacks = callbacks
        self.opt = torch.optim.SGD([
            {'params': self.backbone.parameters(), 'lr': lr / 10},
            {'params': self.head.parameters()}], lr=lr)
        self.loss_fn = nn.CrossEntropyLoss()
        self.global_step = 0

    def fit(self, data, epochs):
        for epoch in range(epochs):
            for cb in self.callbacks:
                cb.on_epoch_start(self, epoch)
            for x, y in data:
                x, y = x.to(self.device), y.to(self.device)
                loss = self.loss_fn(self.head(self.backbone(x)), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                torch_xla.sync()
                self.global_step += 1
                for cb in self.callbacks:
                    cb.on_step_end(self, loss)


if __name__ == '__main__':
    torch.manual_seed(0)
    data = [(torch.randn(8, 3, 16, 16), torch.randint(0, 6, (8,))) for _ in range(5)]
    Trainer([BackboneFinetuning(unfreeze_at=2), Printer(4)]).fit(data, epochs=4)
