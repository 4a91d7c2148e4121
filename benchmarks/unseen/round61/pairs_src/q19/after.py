"""Adapt the cross-attention of a Marian translation model to a new domain (LoRA)."""
import argparse

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import MarianConfig, MarianMTModel

PAD, EOS = 1, 2


def build_model(args):
    config = MarianConfig(
        vocab_size=96,
        d_model=24,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=32,
        activation_function="relu",
        dropout=0.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=EOS,
        scale_embedding=True,
    )
    base = MarianMTModel(config).to(torch.bfloat16)
    lora = LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.0,
        target_modules=r".*encoder_attn\.(q_proj|v_proj)",
    )
    return get_peft_model(base, lora, autocast_adapter_dtype=args.adapter_autocast)


class ParallelCorpus:
    """Synthetic parallel data, padded to a fixed length on both sides."""

    def __init__(self, n=128, length=10, vocab=96, seed=0):
        g = torch.Generator().manual_seed(seed)
        src = torch.randint(4, vocab, (n, length), generator=g)
        n_tokens = torch.randint(length // 2, length, (n, 1), generator=g)
        pos = torch.arange(length)
        src = torch.where(pos < n_tokens, src, torch.where(pos == n_tokens, EOS, PAD))
        tgt = torch.where(src > 3, (src * 7) % (vocab - 4) + 4, src)
        self.src, self.tgt, self.g = src, tgt, g

    def batch(self, size):
        idx = torch.randint(0, len(self.src), (size,), generator=self.g)
        src, tgt = self.src[idx], self.tgt[idx]
        return {
            "input_ids": src,
            "attention_mask": (src != PAD).long(),
            "labels": tgt.masked_fill(tgt == PAD, -100),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--adapter-autocast", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    model = build_model(args).to(device)
    model.train()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=args.lr)
    corpus = ParallelCorpus()

    for step in range(args.steps):
        batch = {k: v.to(device) for k, v in corpus.batch(args.batch_size).items()}
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
