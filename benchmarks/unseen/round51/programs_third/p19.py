"""LoRA adaptation of a small causal LM to a toy grammar with accelerate and peft."""
import math

import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup

VOCAB = 64
SEQ = 24


class BracketCorpus(Dataset):
    """Balanced bracket strings over a few bracket kinds, packed to a fixed length."""

    def __init__(self, n, kinds=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = torch.stack([self._sample(g, kinds) for _ in range(n)])

    @staticmethod
    def _sample(g, kinds):
        out, stack = [], []
        while len(out) < SEQ:
            opening = not stack or (len(stack) < 5 and torch.rand(1, generator=g).item() < 0.5)
            if opening:
                k = int(torch.randint(kinds, (1,), generator=g))
                stack.append(k)
                out.append(2 + k)
            else:
                out.append(2 + kinds + stack.pop())
        return torch.tensor(out)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def build_model():
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=SEQ,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=1,
        use_cache=False,
    )
    config._attn_implementation = "eager"
    base = GPT2LMHeadModel(config)
    lora = LoraConfig(
        r=4,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["c_attn", "c_proj"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, lora)


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    total = torch.zeros((), device=accelerator.device)
    tokens = 0
    for batch in loader:
        out = model(input_ids=batch["input_ids"], labels=batch["labels"])
        n = batch["labels"].numel() - batch["labels"].size(0)
        total += out.loss.float() * n
        tokens += n
        torch_xla.sync()
    model.train()
    return math.exp(min(20.0, total.item() / tokens))


def main():
    set_seed(41)
    accelerator = Accelerator(gradient_accumulation_steps=4)
    batch_size, updates, eval_every = 8, 14, 4

    train = DataLoader(BracketCorpus(160, seed=1), batch_size=batch_size, shuffle=True, drop_last=True)
    held_out = DataLoader(BracketCorpus(28, seed=2), batch_size=batch_size)

    model = build_model()
    model.print_trainable_parameters()
    model = model.to(accelerator.device)
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad), lr=5e-3, weight_decay=0.01
    )
    scheduler = get_cosine_schedule_with_warmup(optimizer, 3, updates)
    model, optimizer, train, held_out, scheduler = accelerator.prepare(
        model, optimizer, train, held_out, scheduler
    )

    done, running, seen = 0, torch.zeros((), device=accelerator.device), 0
    model.train()
    while done < updates:
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            running += loss.detach()
            seen += 1
            torch_xla.sync()

            if not accelerator.sync_gradients:
                continue
            done += 1
            if done % eval_every == 0:
                ppl = evaluate(model, held_out, accelerator)
                print(f"update {done:2d} train {running.item() / seen:.4f} ppl {ppl:.2f}")
                running.zero_()
                seen = 0
            if done == updates:
                break

    ppl = evaluate(model, held_out, accelerator)
    print(f"final perplexity {ppl:.2f}")


if __name__ == "__main__":
    main()
