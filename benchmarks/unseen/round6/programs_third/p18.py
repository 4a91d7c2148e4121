"""Denoising sequence-to-sequence pretraining with a small BART (random weights)."""
import torch
import torch_xla
from torchmetrics import MeanMetric
from transformers import BartConfig, BartForConditionalGeneration, get_cosine_schedule_with_warmup

VOCAB, PAD, BOS, EOS, MASK = 48, 0, 1, 2, 3
LENGTH, BATCH, STEPS = 20, 8, 30


def build_model():
    config = BartConfig(
        vocab_size=VOCAB,
        max_position_embeddings=LENGTH + 4,
        d_model=32,
        encoder_layers=4,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        dropout=0.1,
        attention_dropout=0.05,
        activation_dropout=0.0,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.0,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
        use_cache=False,
        attn_implementation="eager",
    )
    return BartForConditionalGeneration(config)


class Sentences:
    """Arithmetic token sequences; the source has some tokens replaced by MASK."""

    def __init__(self, seed, noise=0.25):
        self.g = torch.Generator().manual_seed(seed)
        self.noise = noise

    def batch(self, n=BATCH):
        start = torch.randint(0, VOCAB - 4, (n, 1), generator=self.g)
        stride = torch.randint(1, 4, (n, 1), generator=self.g)
        body = 4 + (start + stride * torch.arange(LENGTH - 2)) % (VOCAB - 4)
        clean = torch.cat([torch.full((n, 1), BOS), body, torch.full((n, 1), EOS)], 1)
        hide = (torch.rand(clean.shape, generator=self.g) < self.noise) & (clean > MASK)
        return {"input_ids": clean.masked_fill(hide, MASK), "labels": clean}


class Pretrainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.opt = torch.optim.SGD(params, lr=0.05, momentum=0.9)
        self.sched = get_cosine_schedule_with_warmup(self.opt, 6, STEPS + 1)
        self.mean_loss = MeanMetric()

    def inputs(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def training_step(self, batch):
        self.model.train()
        out = self.model(**self.inputs(batch))
        out.loss.backward()
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad()
        torch_xla.sync()
        return out.loss.detach()

    @torch.no_grad()
    def evaluate(self, batches):
        self.model.eval()
        hits = 0.0
        for batch in batches:
            b = self.inputs(batch)
            hit = (self.model(**b).logits.argmax(-1) == b["labels"]).float().mean()
            torch_xla.sync()
            hits += hit.item()
        return hits / len(batches)


def main():
    torch.manual_seed(0)
    trainer = Pretrainer(build_model(), torch_xla.device())
    data, held_out = Sentences(1), Sentences(2)
    valid = [held_out.batch() for _ in range(3)]
    torch_xla.sync()
    for step in range(STEPS):
        loss = trainer.training_step(data.batch())
        trainer.mean_loss.update(loss.item())
        if (step + 1) % 10 == 0:
            print(step + 1, f"loss {trainer.mean_loss.compute():.4f}", f"accuracy {trainer.evaluate(valid):.3f}")
            trainer.mean_loss.reset()


if __name__ == "__main__":
    main()
