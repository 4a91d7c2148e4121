"""Denoising seq2seq pre-training of a tiny BART on synthetic token streams."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, IterableDataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

VOCAB, SEQ, BATCH, STEPS = 64, 12, 8, 16
BOS, PAD, EOS, MASK = 0, 1, 2, 3


def build_model():
    config = BartConfig(
        vocab_size=VOCAB,
        d_model=16,
        encoder_layers=3,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        encoder_layerdrop=0.25,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
        use_cache=False,
    )
    return BartForConditionalGeneration(config)


class Denoising(IterableDataset):
    """Markov chains with a share of the tokens masked out in the source."""

    def __init__(self, steps, batch, seed=0):
        self.n = steps * batch
        self.seed = seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            start = int(torch.randint(4, VOCAB, (1,), generator=g))
            stride = int(torch.randint(1, 5, (1,), generator=g))
            body = 4 + (start + stride * torch.arange(SEQ - 2)) % (VOCAB - 4)
            labels = torch.cat([torch.tensor([BOS]), body, torch.tensor([EOS])])
            noise = torch.rand(SEQ, generator=g) < 0.25
            noise[0] = noise[-1] = False
            src = labels.masked_fill(noise, MASK)
            yield {"input_ids": src, "attention_mask": torch.ones(SEQ, dtype=torch.long), "labels": labels}


def no_decay_groups(model, wd):
    decay, rest = [], []
    for name, p in model.named_parameters():
        (rest if p.ndim < 2 or "embed" in name else decay).append(p)
    return [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


def report(step, loss, lr):
    print(f"step {step} loss {loss.item():.4f} lr {lr:.2e}")


def main():
    torch.manual_seed(42)
    device = xm.xla_device()
    model = build_model().to(device).train()
    optimizer = torch.optim.AdamW(no_decay_groups(model, 0.01), lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=5, num_training_steps=STEPS)
    loader = pl.MpDeviceLoader(DataLoader(Denoising(STEPS, BATCH), batch_size=BATCH), device)

    for step, batch in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        xm.optimizer_step(optimizer)
        scheduler.step()
        if step % 4 == 0:
            xm.add_step_closure(report, args=(step, loss.detach(), scheduler.get_last_lr()[0]))


if __name__ == "__main__":
    main()
