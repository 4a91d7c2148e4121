import torch
import torch.nn as nn
import torch_xla


def global_norm(params):
    return torch.stack([p.grad.pow(2).sum() for p in params if p.grad is not None]).sum().sqrt()


def clip_(params, max_norm):
    norm = global_norm(params)
    if norm > max_norm:
        for p in params:
            p.grad.mul_(max_norm / norm)
    return norm


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.out(h[:, -1])


def main():
    torch.manual_seed(21)
    dev = torch_xla.device()
    model = Regressor().to(dev)
    params = list(model.parameters())
    opt = torch.optim.SGD(params, lr=0.05)
    scales = [1, 1, 1, 1, 6, 1, 7, 1, 8, 1]
    for i, scale in enumerate(scales):
        x = torch.randn(6, 7, 3)
        y = scale * x.sum((1, 2), keepdim=False).unsqueeze(1) * 0.2
        loss = nn.functional.mse_loss(model(x.to(dev)), y.to(dev))
        opt.zero_grad()
        loss.backward()
        norm = clip_(params, 1.6)
        opt.step()
        torch_xla.sync()
        print(f"{i} loss {loss.item():.3f} grad norm {norm.item():.3f}")


main()
