import torch
import torch_xla
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

BATCH, SAMPLES, KEYWORDS = 4, 480, 6


def build():
    cfg = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_act="relu",
        conv_dim=(8, 8),
        conv_kernel=(10, 4),
        conv_stride=(5, 4),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        apply_spec_augment=False,
        num_labels=KEYWORDS,
        classifier_proj_size=8,
        attn_implementation="eager",
    )
    model = Wav2Vec2ForSequenceClassification(cfg)
    model.freeze_feature_encoder()
    pos_conv = model.wav2vec2.encoder.pos_conv_embed.conv
    torch.nn.utils.parametrize.remove_parametrizations(pos_conv, "weight")
    return model


def batches(n):
    for _ in range(n):
        wav = torch.randn(BATCH, SAMPLES)
        wav = (wav - wav.mean(-1, keepdim=True)) / wav.std(-1, keepdim=True)
        yield wav, torch.randint(KEYWORDS, (BATCH,))


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    model = build().to(device).train()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=3e-3)
    losses = []
    for wav, label in batches(14):
        out = model(input_values=wav.to(device), labels=label.to(device))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        losses.append(out.loss.detach())
    print([round(l.item(), 4) for l in losses])


if __name__ == "__main__":
    main()
