"""Continue pre-training of a small Llama on in-house ticket text (accelerate)."""
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup


class PackedTokens(Dataset):
    """Fixed-length blocks cut from one long token stream."""

    def __init__(self, n_blocks, block_size, vocab_size, seed=0):
        g = torch.Generator().manual_seed(seed)
        stream = torch.randint(0, vocab_size, (n_blocks * block_size,), generator=g)
        self.blocks = stream.view(n_blocks, block_size)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i]}


def build_model(args):
    config = LlamaConfig(
        vocab_size=args.vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        attn_implementation="eager",
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def param_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--weight_decay", type=float, default=0.1)
    ap.add_argument("--layers", type=int, default=1)
    ap.add_argument("--vocab_size", type=int, default=128)
    ap.add_argument("--block_size", type=int, default=16)
    ap.add_argument("--batch_size", type=int, default=4)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--warmup_steps", type=int, default=1)
    args = ap.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=args.accum)
    loader = DataLoader(
        PackedTokens(32, args.block_size, args.vocab_size),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
    )
    model = build_model(args)
    optimizer = torch.optim.AdamW(param_groups(model, args.weight_decay), lr=args.lr, betas=(0.9, 0.95))

    updates_per_epoch = len(loader) // args.accum
    scheduler = get_linear_schedule_with_warmup(
        optimizer,
        num_warmup_steps=args.warmup_steps,
        num_training_steps=args.epochs * updates_per_epoch,
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    model.train()
    seen = 0
    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            seen += batch["input_ids"].numel()
            epoch_loss = epoch_loss + loss.detach()
        print(f"epoch {epoch} tokens {seen} loss {(epoch_loss / len(loader)).item():.4f}")


if __name__ == "__main__":
    main()
