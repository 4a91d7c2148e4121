"""Fine-tunes a small M2M100 on a toy gloss-to-text pair (sign glosses -> words)
with accelerate. Sources and targets are packed to constant lengths."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import math

import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import M2M100Config, M2M100ForConditionalGeneration, get_linear_schedule_with_warmup

VOCAB = 96
BOS, PAD, EOS = 0, 1, 2
LANG_GLOSS, LANG_TEXT = 3, 4
SRC_LEN, TGT_LEN = 14, 16


class GlossPairs(Dataset):
    """Glosses drop function words and keep lemma order mostly reversed; the
    target side restores order and inserts an article before every noun."""

    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(size):
            n = int(torch.randint(4, 8, (1,), generator=g))
            words = torch.randint(10, VOCAB, (n,), generator=g).tolist()
            source = [LANG_GLOSS] + words[::-1] + [EOS]
            target = [LANG_TEXT]
            for w in words:
                if w % 5 == 0:
                    target.append(6)
                target.append(w)
            target = target[: TGT_LEN - 1] + [EOS]
            self.items.append((self._pad(source, SRC_LEN), self._pad(target, TGT_LEN)))

    @staticmethod
    def _pad(ids, length):
        return ids + [PAD] * (length - len(ids))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        src, tgt = (torch.tensor(x) for x in self.items[i])
        labels = tgt.masked_fill(tgt == PAD, -100)
        return {"input_ids": src, "attention_mask": (src != PAD).long(), "labels": labels}


def build_model():
    config = M2M100Config(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=5,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        dropout=0.0,
        encoder_layerdrop=0.3,
        decoder_layerdrop=0.0,
        scale_embedding=True,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
    )
    return M2M100ForConditionalGeneration(config)


def evaluate(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad():
            total += model(**batch).loss
        torch_xla.sync()
    model.train()
    return total.item() / len(loader)


def main():
    set_seed(314)
    accelerator = Accelerator()
    device = accelerator.device

    train_set, valid_set = GlossPairs(192, seed=5), GlossPairs(32, seed=6)
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=16, drop_last=True)

    model = build_model().to(device)
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 else decay).append(p)
    optimizer = torch.optim.SGD(
        [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}],
        lr=0.1,
        momentum=0.9,
    )
    scheduler = get_linear_schedule_with_warmup(optimizer, 5, len(train_loader))
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)

    model.train()
    window = torch.zeros((), device=device)
    for step, batch in enumerate(train_loader, start=1):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=False)
        window += loss.detach()
        torch_xla.sync()

        if step % 6 == 0:
            mean = window.item() / 6
            window.zero_()
            accelerator.print(
                f"step {step:3d}  loss {mean:.3f}  ppl {math.exp(min(mean, 20)):.1f}  "
                f"lr {scheduler.get_last_lr()[0]:.2e}"
            )
        if step % 12 == 0:
            accelerator.print(f"  valid {evaluate(model, valid_loader, device):.3f}")


if __name__ == "__main__":
    main()
