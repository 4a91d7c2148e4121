# Learning with noisy labels: two peers select small-loss samples for each other.
import argparse

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--noise-rate", type=float, default=0.4)
parser.add_argument("--forget-rate", type=float, default=None)
parser.add_argument("--num-gradual", type=int, default=9)
parser.add_argument("--exponent", type=float, default=1.0)
parser.add_argument("--n-epoch", type=int, default=14)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--seed", type=int, default=3)


def make_data(rng, n, n_class=5, dim=24):
    centers = rng.normal(0, 1.6, (n_class, dim))
    y = rng.integers(0, n_class, n)
    x = centers[y] + rng.normal(0, 1.0, (n, dim))
    return x.astype(np.float32), y


def corrupt(rng, y, rate, n_class=5):
    flip = rng.random(len(y)) < rate
    noisy = y.copy()
    noisy[flip] = (y[flip] + rng.integers(1, n_class, flip.sum())) % n_class
    return noisy


def net(dim=24, n_class=5):
    return nn.Sequential(
        nn.Linear(dim, 64), nn.BatchNorm1d(64), nn.LeakyReLU(0.01),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.LeakyReLU(0.01),
        nn.Linear(64, n_class))


def loss_coteaching(y_1, y_2, t, forget_rate):
    loss_1 = F.cross_entropy(y_1, t, reduction="none")
    loss_2 = F.cross_entropy(y_2, t, reduction="none")
    ind_1 = torch.argsort(loss_1.detach())
    ind_2 = torch.argsort(loss_2.detach())

    remember_rate = 1 - forget_rate
    num_remember = int(remember_rate * len(t))
    update_1 = ind_1[:num_remember]
    update_2 = ind_2[:num_remember]
    # exchange
    loss_1_update = F.cross_entropy(y_1[update_2], t[update_2])
    loss_2_update = F.cross_entropy(y_2[update_1], t[update_1])
    return loss_1_update, loss_2_update


@torch.no_grad()
def evaluate(models, x, y):
    out = []
    for m in models:
        m.eval()
        out.append((m(x).argmax(1) == y).float().mean())
        m.train()
    torch_xla.sync()
    return [o.item() for o in out]


def main():
    args = parser.parse_args()
    forget_rate = args.noise_rate if args.forget_rate is None else args.forget_rate
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    dev = torch_xla.device()

    x, y = make_data(rng, 512 + 128)
    x_train, x_test = x[:512], torch.from_numpy(x[512:]).to(dev)
    y_train, y_test = corrupt(rng, y[:512], args.noise_rate), torch.from_numpy(y[512:]).to(dev)

    rate_schedule = np.ones(args.n_epoch) * forget_rate
    rate_schedule[:args.num_gradual] = np.linspace(0, forget_rate ** args.exponent, args.num_gradual)

    models = [net().to(dev), net().to(dev)]
    opts = [torch.optim.Adam(m.parameters(), lr=args.lr) for m in models]

    for epoch in range(args.n_epoch):
        order = rng.permutation(len(x_train))
        run_1 = run_2 = 0.0
        n_batches = len(order) // args.batch_size
        for b in range(n_batches):
            idx = order[b * args.batch_size:(b + 1) * args.batch_size]
            with torch_xla.step():
                xb = torch.from_numpy(x_train[idx]).to(dev)
                tb = torch.from_numpy(y_train[idx]).to(dev)
                logits_1, logits_2 = models[0](xb), models[1](xb)
                l1, l2 = loss_coteaching(logits_1, logits_2, tb, rate_schedule[epoch])
                for o, l in zip(opts, (l1, l2)):
                    o.zero_grad()
                    l.backward()
                    o.step()
            run_1 += l1.item()
            run_2 += l2.item()
        acc = evaluate(models, x_test, y_test)
        print("epoch %02d  loss %.3f / %.3f  acc %.3f / %.3f" %
              (epoch, run_1 / n_batches, run_2 / n_batches, *acc))


if __name__ == "__main__":
    main()
