"""LoRA fine-tuning of a tiny GPT-2 on arithmetic strings, with accelerate and gradient accumulation.

Texts are packed into blocks of a fixed length; the held-out set is scored after each epoch,
with its last, smaller batch.
"""
import random

import torch
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

CHARS = "0123456789+=; "
STOI = {c: i for i, c in enumerate(CHARS)}
BLOCK = 32
BATCH = 8
ACCUMULATE = 2
EPOCHS = 3


def write_text(n, rng):
    out = []
    for _ in range(n):
        a, b = rng.randrange(10), rng.randrange(10)
        out.append(f"{a}+{b}={a + b};")
    return " ".join(out)


class Blocks(Dataset):
    """One long string, cut into blocks; the remainder is dropped."""

    def __init__(self, text):
        ids = torch.tensor([STOI[c] for c in text])
        n = len(ids) // BLOCK
        self.ids = ids[: n * BLOCK].view(n, BLOCK)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def build_model():
    config = GPT2Config(
        vocab_size=len(CHARS),
        n_positions=BLOCK,
        n_embd=32,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
        use_cache=False,
    )
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.05,
        target_modules=["c_attn", "c_proj"],
        modules_to_save=["lm_head"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(GPT2LMHeadModel(config), lora)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    count = 0
    for batch in loader:
        loss = model(**batch).loss
        rows = batch["input_ids"].shape[0]
        total += loss * rows
        count += rows
        xm.mark_step()
    model.train()
    return total.item() / count


def main():
    set_seed(20)
    rng = random.Random(20)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATE)
    train = Blocks(write_text(620, rng))
    held_out = Blocks(write_text(110, rng))
    model = build_model().to(accelerator.device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.3, momentum=0.9)
    train_loader = DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True)
    eval_loader = DataLoader(held_out, batch_size=BATCH, shuffle=False)
    updates = EPOCHS * len(train_loader) // ACCUMULATE
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, updates)

    model, optimizer, train_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, scheduler
    )

    for epoch in range(EPOCHS):
        model.train()
        epoch_loss = torch.zeros((), device=accelerator.device)
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(params, 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            epoch_loss += loss.detach()
            xm.mark_step()

        on_device = ({k: v.to(accelerator.device) for k, v in b.items()} for b in eval_loader)
        score = evaluate(model, on_device, accelerator.device)
        print(
            f"epoch {epoch}: train {epoch_loss.item() / len(train_loader):.4f}  held out {score:.4f}"
        )


if __name__ == "__main__":
    main()
