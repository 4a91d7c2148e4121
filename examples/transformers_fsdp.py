"""Nested FSDP on a model of Hugging Face transformers: the setting of pytorch/xla issue 4160.

Each layer is sharded on its own, its attention once more inside it, and the whole model around
them; weights are random, so that nothing is downloaded. With torch_xla 2.9 as it is (MODE=stock)
BERT still recompiles: a bias of its head has a gradient hook and never gets a gradient, so that the
root waits for it and never flushes its bucket.

Needs ``transformers`` 5. Settings, by environment variable:
    ARCH         bert (default), gpt2, llama, t5, vit
    MODE         stock (default), or carry: no flush at the end of backward, as before torch_xla 2
    LAYERS       layers of the model (default 2; a layer of BERT is about 1,700 instructions)
    OPTIMIZER    sgd (default, with momentum), adamw, adafactor, rmsprop
    BUCKET       capacity of a bucket in MB (default 0.4)
    CLIP         1 clips the norm of all gradients (default 0)
    CHECKPOINT   1 computes each layer again in backward (default 0)
    STEPS        training steps (default 8)

``XLA_FLAGS=--xla_backend_optimization_level=0`` makes the CPU's compiles faster.
"""

from __future__ import annotations

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.debug.metrics as met
import transformers as hf
from torch import nn
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel, checkpoint_module
from torch_xla.distributed.fsdp import xla_fully_sharded_data_parallel as fsdp_module
from torch_xla.distributed.fsdp.utils import BucketizedReduceScatter


def setting(name: str, default: str) -> str:
    """An environment variable."""
    return os.environ.get(name, default)


ARCH = setting("ARCH", "bert")
LAYERS = int(setting("LAYERS", "2"))
WORDS, TOKENS, BATCH, WIDTH = 500, 16, 2, 64


class CarryOverBucket(BucketizedReduceScatter):
    """Flush only when full: leftovers wait for the next backward."""

    def flush(self) -> None:
        """Reduce what waits, unless there is room for more."""
        if setting("MODE", "stock") == "stock" or self.bucket_watermark > self.bucket_size_bytes:
            super().flush()


def shard(module: nn.Module) -> XlaFullyShardedDataParallel:
    """Wrap ``module`` in FSDP with a bucketed reduce-scatter."""
    return XlaFullyShardedDataParallel(
        module.to("xla"),
        reduce_scatter_bucket_size_mb=float(setting("BUCKET", "0.4")),
        # Coalesced reduce-scatter with pinned layouts fails a check in torch_xla 2.9.
        pin_layout_in_collective_ops=False,
    )


def shard_layers(layers: nn.ModuleList, attention: str) -> None:
    """Shard each layer, and the submodule of that name inside it."""
    for i, layer in enumerate(layers):
        setattr(layer, attention, shard(getattr(layer, attention)))
        whole = checkpoint_module(layer) if setting("CHECKPOINT", "0") == "1" else layer
        layers[i] = shard(whole)


def bert() -> nn.Module:
    """BERT for masked words; FSDP shards no tied weights, so its decoder has its own."""
    config = hf.BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model = hf.BertForMaskedLM(config)
    decoder = model.cls.predictions.decoder
    decoder.weight = nn.Parameter(decoder.weight.clone())
    shard_layers(model.bert.encoder.layer, "attention")
    return model


def gpt2() -> nn.Module:
    """GPT-2."""
    config = hf.GPT2Config(
        vocab_size=WORDS,
        n_positions=64,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=4,
        use_cache=False,
        attn_implementation="eager",
    )
    model = hf.GPT2LMHeadModel(config)
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.clone())
    shard_layers(model.transformer.h, "attn")
    return model


def llama() -> nn.Module:
    """Llama, with two key and value heads for four of queries."""
    config = hf.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    model = hf.LlamaForCausalLM(config)
    shard_layers(model.model.layers, "self_attn")
    return model


def t5() -> nn.Module:
    """T5; the first block of each stack is left whole: it makes the position bias of the others."""
    config = hf.T5Config(
        vocab_size=WORDS,
        d_model=WIDTH,
        d_kv=16,
        d_ff=4 * WIDTH,
        num_layers=LAYERS,
        num_heads=4,
        use_cache=False,
        tie_word_embeddings=False,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    model = hf.T5ForConditionalGeneration(config)
    for stack in (model.encoder, model.decoder):
        own = nn.Embedding(WORDS, WIDTH)
        own.weight.data.copy_(model.shared.weight.data)
        stack.embed_tokens = own
        for block in stack.block:
            block.layer[-1] = shard(block.layer[-1])
    return model


def vit() -> nn.Module:
    """A vision transformer."""
    config = hf.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        image_size=32,
        patch_size=8,
        num_labels=10,
        attn_implementation="eager",
    )
    model = hf.ViTForImageClassification(config)
    shard_layers(model.vit.layers, "attention")
    return model


def batch() -> dict[str, torch.Tensor]:
    """Inputs and labels on the device."""
    if ARCH == "vit":
        pixels, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
        return {"pixel_values": pixels.to("xla"), "labels": labels.to("xla")}
    words = torch.randint(0, WORDS, (BATCH, TOKENS)).to("xla")
    return {"input_ids": words, "labels": words.clone()}


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that OPTIMIZER names."""
    parameters = model.parameters()
    match setting("OPTIMIZER", "sgd"):
        case "adamw":
            return torch.optim.AdamW(parameters, lr=1e-3)
        case "adafactor":
            return torch.optim.Adafactor(parameters, lr=1e-3)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, lr=1e-3)
        case _:
            return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def main() -> None:
    """Train on random data and print what torch_xla counted."""
    fsdp_module.BucketizedReduceScatter = CarryOverBucket
    torch.manual_seed(0)
    makers = {"bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "vit": vit}
    model = shard(makers[ARCH]())
    optimizer = make_optimizer(model)
    torch_xla.sync()
    for step in range(int(setting("STEPS", "8"))):
        loss = model(**batch()).loss
        loss.backward()
        if setting("CLIP", "0") == "1":
            model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        compiled = met.counter_value("UncachedCompile")
        print(f"step {step}: {compiled} compiled, {met.counter_value('CachedCompile') or 0} hits")
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
