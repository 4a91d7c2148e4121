"""Fine-tuning a small pretrained text encoder on topic labels, unfreezing from the top down."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, SEQ, CLASSES, DIM = 120, 24, 5, 40


class Encoder(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.randn(SEQ, DIM) * 0.02)
        self.blocks = nn.ModuleList([
            nn.TransformerEncoderLayer(DIM, 4, 2 * DIM, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.Tanh(), nn.Linear(DIM, CLASSES))

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))

    def groups(self):
        """top to bottom"""
        bottom = [self.tok.weight, self.pos]
        return [list(self.head.parameters())] + [list(b.parameters()) for b in reversed(self.blocks)] + [bottom]


class Callback:
    def on_epoch_start(self, loop, epoch): ...
    def on_step_end(self, loop, loss): ...
    def on_epoch_end(self, loop, epoch): ...


class GradualUnfreeze(Callback):
    def __init__(self, schedule, lr=2e-3, decay=2.6):
        self.schedule, self.lr, self.decay = schedule, lr, decay

    def on_epoch_start(self, loop, epoch):
        if epoch not in self.schedule:
            return
        depth = self.schedule[epoch]
        groups = loop.model.groups()
        for i, g in enumerate(groups):
            for p in g:
                p.requires_grad_(i < depth)
        loop.opt = torch.optim.AdamW(
            [{"params": g, "lr": self.lr / self.decay ** i} for i, g in enumerate(groups[:depth])], weight_decay=0.01)
        print(f"epoch {epoch}: training the top {depth} groups")


class Report(Callback):
    def __init__(self, every):
        self.every, self.count = every, 0

    def on_step_end(self, loop, loss):
        self.count += 1
        if self.count % self.every == 0:
            print(f"  step {self.count} loss {loss.item():.3f}")


class Validate(Callback):
    def __init__(self, data, labels, batch):
        self.data, self.labels, self.batch = data, labels, batch

    @torch.no_grad()
    def on_epoch_end(self, loop, epoch):
        loop.model.eval()
        hits = 0
        for x, y in zip(self.data.split(self.batch), self.labels.split(self.batch)):
            pred = loop.model(x.to(loop.device)).argmax(-1)
            xm.mark_step()
            hits += int((pred.cpu() == y).sum())
        loop.model.train()
        print(f"epoch {epoch} val acc {hits / len(self.labels):.3f}")


class Loop:
    def __init__(self, model, callbacks):
        self.device = torch_xla.device()
        self.model, self.callbacks, self.opt = model.to(self.device), callbacks, None

    def fire(self, name, *args):
        for c in self.callbacks:
            getattr(c, name)(self, *args)

    def fit(self, data, labels, epochs, batch):
        for epoch in range(epochs):
            self.fire("on_epoch_start", epoch)
            order = torch.randperm(len(data))
            for idx in order.split(batch):
                x, y = data[idx].to(self.device), labels[idx].to(self.device)
                self.opt.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.opt.step()
                xm.mark_step()
                self.fire("on_step_end", loss)
            self.fire("on_epoch_end", epoch)


def topics(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    x = torch.randint(0, VOCAB, (n, SEQ), generator=g)
    own = torch.rand(n, SEQ, generator=g) < 0.4
    return torch.where(own, y[:, None] * 20 + x % 20, x), y


if __name__ == "__main__":
    torch.manual_seed(1)
    cbs = [GradualUnfreeze({0: 1, 2: 2, 4: 5}), Report(every=6), Validate(*topics(64, 9), batch=32)]
    Loop(Encoder(), cbs).fit(*topics(96, 8), epochs=6, batch=16)
