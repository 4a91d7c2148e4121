"""AdaLoRA adaptation of a small token tagger (peft), ranks shared out over the layers."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, get_peft_model


def parse():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=42)
    ap.add_argument("--tinit", type=int, default=4)
    ap.add_argument("--tfinal", type=int, default=8)
    ap.add_argument("--delta-t", type=int, default=1)
    ap.add_argument("--init-r", type=int, default=12)
    ap.add_argument("--target-r", type=int, default=3)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--seq", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-2)
    ap.add_argument("--eval-every", type=int, default=14)
    return ap.parse_args()


class Mixer(nn.Module):
    def __init__(self, dim, seq):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Linear(seq, seq)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Tagger(nn.Module):
    def __init__(self, vocab=50, dim=24, seq=12, tags=5, depth=1):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Mixer(dim, seq) for _ in range(depth))
        self.classifier = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x)
        return self.classifier(x)


def sentences(n, seq, gen):
    ids = torch.randint(0, 50, (n, seq), generator=gen)
    tags = (ids + torch.roll(ids, 1, 1)) % 5
    return ids, tags


def build(args, device):
    torch.manual_seed(2)
    config = AdaLoraConfig(
        init_r=args.init_r, target_r=args.target_r, tinit=args.tinit, tfinal=args.tfinal,
        deltaT=args.delta_t, total_step=args.steps, lora_alpha=16, lora_dropout=0.0,
        target_modules=["up", "down"], modules_to_save=["classifier"],
    )
    return get_peft_model(Tagger(seq=args.seq), config).to(device)


@torch.no_grad()
def accuracy(model, gen, args, device):
    model.eval()
    ids, tags = sentences(32, args.seq, gen)
    guess = model(ids.to(device)).argmax(-1)
    torch_xla.sync()
    model.train()
    return (guess.cpu() == tags).float().mean().item()


def main():
    args = parse()
    device = xm.xla_device()
    model = build(args, device)
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0.0)
    gen, held = torch.Generator().manual_seed(3), torch.Generator().manual_seed(4)

    for step in range(args.steps):
        for g in opt.param_groups:
            g["lr"] = args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step + 0.5) / args.steps)))
        ids, tags = sentences(args.batch, args.seq, gen)
        logits = model(ids.to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), tags.to(device).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.base_model.update_and_allocate(step)
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")
        if (step + 1) % args.eval_every == 0:
            print(f"step {step + 1} accuracy {accuracy(model, held, args, device):.3f}")


if __name__ == "__main__":
    main()
