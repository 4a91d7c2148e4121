import torch
import torch.nn as nn
import torch_xla


class Worker:
    """Local SGD: workers train alone and are averaged every few steps."""

    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()


class Ensemble:
    def __init__(self, n, device):
        self.workers = {f"w{i}": Worker(nn.Linear(6, 1).to(device), 0.05) for i in range(n)}

    def train(self, x, y):
        active = {name for name in self.workers}
        losses = {}
        for name in active:
            losses[name] = self.workers[name].step(x, y)
        return sum(losses.values()) / len(losses)

    @torch.no_grad()
    def average(self):
        models = [w.model for w in self.workers.values()]
        for group in zip(*(m.parameters() for m in models)):
            mean = sum(group) / len(group)
            for p in group:
                p.copy_(mean)
        torch_xla.sync()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    ensemble = Ensemble(3, device)
    for i in range(12):
        x = torch.randn(10, 6)
        loss = ensemble.train(x.to(device), x.sum(1, keepdim=True).to(device))
        torch_xla.sync()
        if i % 4 == 3:
            ensemble.average()
            print(i, loss.item())
