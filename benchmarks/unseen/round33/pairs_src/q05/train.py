"""Keyword spotting: fine-tune a (tiny, randomly initialised) wav2vec2 with a classification head."""
import numpy as np
import torch
import torch.nn.utils.parametrize as parametrize
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_linear_schedule_with_warmup

KEYWORDS = ["yes", "no", "up", "down", "stop", "go"]


def build():
    config = Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        conv_dim=(16,), conv_kernel=(40,), conv_stride=(20,), num_feat_extract_layers=1,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, classifier_proj_size=12,
        num_labels=len(KEYWORDS), hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        feat_proj_dropout=0.0, final_dropout=0.0, apply_spec_augment=False, attn_implementation="eager",
        hidden_act="relu", feat_extract_activation="relu",
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    # the weight norm of the positional convolution has no lowering and cuts the graph
    parametrize.remove_parametrizations(model.wav2vec2.encoder.pos_conv_embed.conv, "weight")
    return model


def clips(rng, bs, n=960, rate=8000):
    labels = rng.integers(0, len(KEYWORDS), bs)
    t = np.arange(n) / rate
    f = 200 * 1.35 ** labels[:, None] * (1 + 0.02 * rng.standard_normal((bs, 1)))
    env = np.exp(-((t - 0.06) / 0.03) ** 2)
    wave = env * np.sin(2 * np.pi * f * t) + 0.05 * rng.standard_normal((bs, n))
    wave = (wave - wave.mean(1, keepdims=True)) / wave.std(1, keepdims=True)
    return torch.from_numpy(wave.astype(np.float32)), torch.from_numpy(labels)


def train(steps=24, bs=4):
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    model = build().to(device)
    head = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("wav2vec2.")]
    body = [p for n, p in model.named_parameters() if p.requires_grad and n.startswith("wav2vec2.")]
    opt = torch.optim.SGD([{"params": body, "lr": 2e-2}, {"params": head, "lr": 1e-1}])
    sched = get_linear_schedule_with_warmup(opt, num_warmup_steps=2, num_training_steps=200)
    sched.step()

    model.train()
    tracker = xm.RateTracker()
    for step in range(steps):
        wave, labels = clips(rng, bs)
        out = model(input_values=wave.to(device), labels=labels.to(device))
        out.loss.backward()
        opt.step()
        opt.zero_grad()
        sched.step()
        torch_xla.sync()
        tracker.add(bs)
        print(f"step {step} loss {out.loss.item():.4f} ({tracker.rate():.1f} clips/s)")


if __name__ == "__main__":
    train()
