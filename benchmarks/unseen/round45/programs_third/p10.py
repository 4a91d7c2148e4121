"""Low-rank adaptation of a small mixture-of-experts LM on log templates."""
import argparse

import numpy as np
import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM, get_cosine_schedule_with_warmup


class LogTemplates(Dataset):
    """Token streams made from a handful of repeated templates with variable slots."""

    def __init__(self, n, length, vocab, seed):
        rng = np.random.default_rng(seed)
        templates = [rng.integers(4, vocab, rng.integers(5, 12)) for _ in range(16)]
        self.rows = []
        for _ in range(n):
            row = []
            while len(row) < length:
                line = templates[rng.integers(len(templates))].copy()
                line[rng.integers(len(line))] = rng.integers(4, vocab)
                row.extend([1, *line.tolist(), 2])
            self.rows.append(torch.tensor(row[:length]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def build_model(args):
    config = Qwen3MoeConfig(
        vocab_size=args.vocab,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=24,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=args.experts,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        max_position_embeddings=args.length,
        use_cache=False,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    base = Qwen3MoeForCausalLM(config)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=args.rank,
        lora_alpha=2 * args.rank,
        target_modules=["q_proj", "v_proj"],
    )
    return get_peft_model(base, lora)


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=120)
    p.add_argument("--length", type=int, default=32)
    p.add_argument("--layers", type=int, default=1)
    p.add_argument("--experts", type=int, default=3)
    p.add_argument("--rank", type=int, default=4)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--max-steps", type=int, default=15)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def main():
    args = parse()
    set_seed(args.seed)
    accelerator = Accelerator()
    model = build_model(args)
    optimizer = torch.optim.AdamW(trainable(model), lr=args.lr, weight_decay=0.01)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 3, args.max_steps + 1)
    train = DataLoader(LogTemplates(128, args.length, args.vocab, args.seed),
                       batch_size=args.batch, shuffle=True, drop_last=True)
    model, optimizer, scheduler, train = accelerator.prepare(
        model, optimizer, scheduler, train)
    model.train()

    step = 0
    while step < args.max_steps:
        for batch in train:
            out = model(**batch)
            accelerator.backward(out.loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            torch_xla.sync()
            step += 1
            if step % 5 == 0:
                print(f"step {step:3d} loss {out.loss.item():.4f} "
                      f"lr {scheduler.get_last_lr()[0]:.2e}")
            if step >= args.max_steps:
                break
    accelerator.wait_for_everyone()
    norm = sum(p.detach().norm() for n, p in model.named_parameters() if "lora_B" in n)
    print(f"adapter norm {norm.item():.4f}")


if __name__ == "__main__":
    main()
