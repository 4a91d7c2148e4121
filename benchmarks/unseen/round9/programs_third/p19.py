"""Adapting a frozen sentence encoder to intent labels with AdaLoRA."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, get_peft_model


@dataclass
class HParams:
    vocab: int = 120
    seq: int = 12
    dim: int = 32
    depth: int = 2
    intents: int = 5
    batch: int = 16
    steps: int = 24
    lr: float = 4e-3
    init_r: int = 8
    target_r: int = 4
    warmup: int = 3
    final: int = 5


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.heads = heads

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x)))
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), Attention(dim)
        self.norm2, self.mlp = nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class IntentModel(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.tok = nn.Embedding(hp.vocab, hp.dim)
        self.pos = nn.Embedding(hp.seq, hp.dim)
        self.layers = nn.Sequential(*[Layer(hp.dim) for _ in range(hp.depth)])
        self.classifier = nn.Linear(hp.dim, hp.intents)
        self.register_buffer("ids", torch.arange(hp.seq))

    def forward(self, tokens):
        return self.classifier(self.layers(self.tok(tokens) + self.pos(self.ids)).mean(1))


def utterances(hp, seed=0):
    g = torch.Generator().manual_seed(seed)
    keywords = torch.randint(hp.vocab, (hp.intents, 6), generator=g)
    while True:
        y = torch.randint(hp.intents, (hp.batch,), generator=g)
        x = torch.randint(hp.vocab, (hp.batch, hp.seq), generator=g)
        x[:, 2:5] = keywords[y].gather(1, torch.randint(6, (hp.batch, 3), generator=g))
        yield x, y


class AdapterTrainer:
    def __init__(self, hp):
        self.hp, self.device = hp, torch_xla.device()
        config = AdaLoraConfig(init_r=hp.init_r, target_r=hp.target_r, tinit=hp.warmup, tfinal=hp.final, deltaT=1,
                               total_step=hp.steps, lora_alpha=16, beta1=0.85, beta2=0.85, orth_reg_weight=0.1,
                               target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"])
        self.model = get_peft_model(IntentModel(hp), config).to(self.device)
        self.model.print_trainable_parameters()
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(params, lr=hp.lr)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.1, total_iters=hp.steps)

    def orthogonality(self):
        reg, count = 0.0, 0
        for name, p in self.model.named_parameters():
            if "lora_A" in name or "lora_B" in name:
                cov = p @ p.T if "lora_A" in name else p.T @ p
                reg = reg + (cov - torch.eye(cov.shape[0], device=p.device)).pow(2).sum().sqrt()
                count += 1
        return 0.1 * reg / count

    def train(self):
        self.model.train()
        for step, (tokens, labels) in zip(range(1, self.hp.steps + 1), utterances(self.hp)):
            tokens, labels = tokens.to(self.device), labels.to(self.device)
            loss = F.cross_entropy(self.model(tokens), labels)
            (loss + self.orthogonality()).backward()
            xm.optimizer_step(self.optimizer, barrier=True)
            self.scheduler.step()
            self.model.base_model.update_and_allocate(step)
            self.optimizer.zero_grad()
            if step % 6 == 0:
                print(f"step {step:2d}/{self.hp.steps} loss {loss.item():.4f} lr {self.scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    torch.manual_seed(0)
    AdapterTrainer(HParams()).train()
