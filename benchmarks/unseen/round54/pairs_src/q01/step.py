"""LoRA fine-tuning of a small Llama on instruction data (PyTorch/XLA)."""
import argparse

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import (LlamaConfig, LlamaForCausalLM,
                          get_linear_schedule_with_warmup)

IGNORE_INDEX = -100


class InstructDataset(Dataset):
    """Prompt + answer, padded to a fixed length; the prompt is not trained on."""

    def __init__(self, size, seq_len, vocab, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, vocab, (size, seq_len), generator=g)
        self.prompt = torch.randint(4, seq_len // 2, (size,), generator=g)
        self.total = torch.randint(seq_len // 2 + 2, seq_len + 1, (size,), generator=g)

    def __len__(self):
        return self.ids.size(0)

    def __getitem__(self, i):
        ids = self.ids[i].clone()
        mask = torch.ones_like(ids)
        n = self.total[i].item()
        ids[n:] = 0
        mask[n:] = 0
        labels = ids.clone()
        labels[:self.prompt[i].item()] = IGNORE_INDEX
        labels[n:] = IGNORE_INDEX
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def build_model(args):
    torch.manual_seed(args.seed)
    cfg = LlamaConfig(vocab_size=args.vocab, hidden_size=32, intermediate_size=64,
                      num_hidden_layers=2, num_attention_heads=4,
                      num_key_value_heads=2, max_position_embeddings=64,
                      attn_implementation="eager", use_cache=False,
                      pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(cfg)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, bias="none",
                      target_modules=["q_proj", "v_proj"], layers_to_transform=[1],
                      task_type="CAUSAL_LM")
    return get_peft_model(model, lora)


def build_optimizer(model, steps_per_epoch, args):
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=args.lr, betas=(0.9, 0.95),
                                  weight_decay=args.weight_decay)
    total = steps_per_epoch * args.epochs // args.grad_accum
    warmup = int(args.warmup_ratio * total)
    scheduler = get_linear_schedule_with_warmup(optimizer, warmup, total)
    return optimizer, scheduler


def train(args):
    device = torch_xla.device()
    model = build_model(args).to(device)
    model.train()
    data = InstructDataset(args.examples, args.seq_len, args.vocab)
    loader = DataLoader(data, batch_size=args.batch_size, drop_last=True)
    optimizer, scheduler = build_optimizer(model, len(loader), args)

    step = 0
    for epoch in range(args.epochs):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            torch_xla.sync()
            step += 1
            print(f"epoch {epoch} step {step} loss {loss.item():.4f} "
                  f"lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=96)
    p.add_argument("--seq_len", type=int, default=24)
    p.add_argument("--examples", type=int, default=16)
    p.add_argument("--batch_size", type=int, default=4)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--grad_accum", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--warmup_ratio", type=float, default=0.25)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=42)
    train(p.parse_args())
