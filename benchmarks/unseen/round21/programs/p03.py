"""Post-hoc calibration of a frozen intent classifier: vector scaling fitted with online L-BFGS."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 4
HOLDOUT = 16
ITERATIONS = 30


def holdout_logits(seed):
    """Over-confident logits with a per-class bias, as the frozen classifier gives them."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (HOLDOUT,), generator=gen)
    clean = 2.0 * F.one_hot(labels, CLASSES).float()
    noise = torch.randn(HOLDOUT, CLASSES, generator=gen) * 1.6
    bias = torch.tensor([0.8, -0.4, 0.0, -0.6])
    return 3.0 * (clean + noise) + bias, labels


class VectorScaling(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(classes))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, logits):
        return logits * self.log_scale.exp() + self.bias


class OnlineLBFGS(torch.optim.Optimizer):
    """Stochastic L-BFGS with a fixed step length and a damped curvature estimate."""

    def __init__(self, params, lr=0.2, memory=50, damping=1e-2):
        super().__init__(params, dict(lr=lr))
        self.memory, self.damping = memory, damping
        self.pairs = []
        self.last = None

    def _gather(self, grads):
        params = self.param_groups[0]["params"]
        return torch.cat([(p.grad if grads else p).reshape(-1) for p in params])

    def _direction(self, grad):
        q, alphas = grad, []
        for s, y, rho in reversed(self.pairs):
            alpha = rho * torch.dot(s, q)
            q = q - alpha * y
            alphas.append(alpha)
        if self.pairs:
            s, y, _ = self.pairs[-1]
            q = q * torch.dot(s, y) / torch.dot(y, y)
        for (s, y, rho), alpha in zip(self.pairs, reversed(alphas)):
            q = q + (alpha - rho * torch.dot(y, q)) * s
        return q

    @torch.no_grad()
    def step(self):
        flat, grad = self._gather(False), self._gather(True)
        if self.last is not None:
            s, y = flat - self.last[0], grad - self.last[1]
            y = y + self.damping * s
            self.pairs.append((s, y, 1.0 / (torch.dot(s, y) + 1e-8)))
            self.pairs = self.pairs[-self.memory:]
        self.last = (flat, grad)
        direction = self._direction(grad)
        offset, group = 0, self.param_groups[0]
        for p in group["params"]:
            p.sub_(group["lr"] * direction[offset:offset + p.numel()].view_as(p))
            offset += p.numel()


class Calibrator:
    def __init__(self, classes, device, ridge=1e-3):
        self.device = device
        self.ridge = ridge
        self.scaling = VectorScaling(classes).to(device)
        self.optimizer = OnlineLBFGS(self.scaling.parameters(), lr=0.3)

    def objective(self, logits, labels):
        nll = F.cross_entropy(self.scaling(logits), labels)
        penalty = sum(p.pow(2).sum() for p in self.scaling.parameters())
        return nll + self.ridge * penalty

    def iterate(self, logits, labels):
        self.optimizer.zero_grad()
        loss = self.objective(logits, labels)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss.detach()

    def fit(self, logits, labels, iterations):
        logits, labels = logits.to(self.device), labels.to(self.device)
        curve = []
        for i in range(iterations):
            curve.append(self.iterate(logits, labels))
            if (i + 1) % 10 == 0:
                print(f"iteration {i + 1}: objective {curve[-1].item():.5f}")
        return torch.stack(curve).cpu()

    @torch.no_grad()
    def calibrated(self, logits):
        return self.scaling(logits.to(self.device)).softmax(-1).cpu()


def mean_nll(probs, labels):
    return -probs.gather(1, labels.unsqueeze(1)).log().mean().item()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    logits, labels = holdout_logits(seed=6)
    calibrator = Calibrator(CLASSES, device)
    before = mean_nll(logits.softmax(-1), labels)
    curve = calibrator.fit(logits, labels, ITERATIONS)
    after = mean_nll(calibrator.calibrated(logits), labels)
    print(f"objective {curve[0]:.4f} -> {curve[-1]:.4f}; NLL {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
