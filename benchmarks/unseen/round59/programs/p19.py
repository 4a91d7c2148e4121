"""MAML for few-shot sinusoid/sawtooth regression: first-order start, second-order afterwards, alternating shots."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.func import functional_call

META_BATCH, QUERY = 2, 12
SHOTS = (5, 10)
STEPS, FIRST_ORDER, INNER, EVAL_INNER = 48, 12, 2, 5


class TaskFamily:
    """Half the tasks are sinusoids, half are smoothed saw teeth."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def draw(self, shots):
        xs, ys = [], []
        for _ in range(META_BATCH):
            amp, phase = self.rng.uniform(0.5, 2.0), self.rng.uniform(0, np.pi)
            x = self.rng.uniform(-4, 4, (shots + QUERY, 1))
            y = np.sin(x + phase)
            if self.rng.random() < 0.5:
                y = y + 0.5 * np.sin(2 * (x + phase)) + 0.33 * np.sin(3 * (x + phase))
            xs.append(x)
            ys.append(amp * y)
        x = torch.tensor(np.stack(xs), dtype=torch.float32)
        y = torch.tensor(np.stack(ys), dtype=torch.float32)
        return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]


class Regressor(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.a = nn.Linear(1, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


class MetaLearner:
    def __init__(self, model, device):
        self.model = model
        self.params = dict(model.named_parameters())
        self.log_lr = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(torch.tensor(-3.0)) for k in self.params}).to(device)

    def adapt(self, x, y, steps, second_order):
        fast = dict(self.params)
        for _ in range(steps):
            loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=second_order)
            fast = {k: p - self.log_lr[k.replace(".", "_")].exp() * g
                    for (k, p), g in zip(fast.items(), grads)}
        return fast

    def query_loss(self, fast, x, y):
        return F.mse_loss(functional_call(self.model, fast, (x,)), y)

    def outer_parameters(self):
        return [{"params": list(self.params.values())},
                {"params": list(self.log_lr.parameters()), "lr": 1e-3}]


def anneal(step, low=0.1):
    """Weight of the pre-adaptation query loss, fading as training goes on."""
    return max(low, 1.0 / (1.0 + 0.15 * (step + 1)))


def evaluate(learner, tasks, device):
    xs, ys, xq, yq = (t.to(device) for t in tasks.draw(SHOTS[0]))
    total = torch.zeros((), device=device)
    for i in range(META_BATCH):
        fast = learner.adapt(xs[i], ys[i], EVAL_INNER, second_order=False)
        total += learner.query_loss(fast, xq[i], yq[i]).detach()
    torch_xla.sync()
    return total.item() / META_BATCH


def main():
    torch.manual_seed(19)
    device = torch_xla.device()
    train_tasks, test_tasks = TaskFamily(1), TaskFamily(2)
    model = Regressor().to(device)
    learner = MetaLearner(model, device)
    opt = torch.optim.SGD(learner.outer_parameters(), lr=0.02, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    torch_xla.sync()

    window = []
    for step in range(STEPS):
        shots = SHOTS[(step // 2) % 2]
        xs, ys, xq, yq = (t.to(device) for t in train_tasks.draw(shots))
        second = step >= FIRST_ORDER
        aux = anneal(step)

        opt.zero_grad(set_to_none=True)
        outer = torch.zeros((), device=device)
        for i in range(META_BATCH):
            fast = learner.adapt(xs[i], ys[i], INNER, second)
            post = learner.query_loss(fast, xq[i], yq[i])
            pre = learner.query_loss(learner.params, xq[i], yq[i])
            task_loss = (post + aux * pre) / META_BATCH
            task_loss.backward()
            outer += post.detach() / META_BATCH
        nn.utils.clip_grad_norm_(list(learner.params.values()), 5.0)
        opt.step()
        sched.step()
        torch_xla.sync()
        window.append(outer)

        if step % 12 == 11:
            mean = sum(w.item() for w in window) / len(window)
            window.clear()
            val = evaluate(learner, test_tasks, device)
            print(f"step {step + 1:2d}  post-adaptation {mean:.3f}  held-out {val:.3f}  aux {aux:.3f}")


if __name__ == "__main__":
    main()
