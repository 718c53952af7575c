"""Small transformers of the package `transformers`, for write_exports.py."""
import torch
from torch import nn

from exported_layers import words

# the names by which configurations of text models call the same sizes
SMALL = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
IMAGES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
LAYERS = dict(encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=32)


class First(nn.Module):
    """The first output of a net whose outputs are a tuple or a mapping."""

    def __init__(self, net, names):
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *inputs):
        return self.net(**dict(zip(self.names, inputs)))[0]


def mask(n=2, length=12):
    m = torch.ones(n, length, dtype=torch.int64)
    m[1, length - 3:] = 0
    return m


def awake(net):
    """With weights of convolutions that keep numbers large: with those of a new net many layers give zeros."""
    for m in net.modules():
        if isinstance(m, nn.Conv2d) and "weight" in m._parameters:
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        if isinstance(m, nn.BatchNorm2d) and m.affine:
            nn.init.uniform_(m.weight, 1, 1.5)
    return net


def net(kind, inputs, **options):
    """The net of this class with its configuration's options, and inputs by name."""
    import transformers as t

    cls = getattr(t, kind)
    config = cls.config_class(**options)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    given = inputs()
    return First(awake(cls(config)), list(given)), tuple(given.values())


def text():
    return {"input_ids": words(2, 12, 100), "attention_mask": mask()}


def alone():
    return {"input_ids": words(2, 12, 100)}


def pixels(size=32):
    return lambda: {"pixel_values": torch.randn(2, 3, size, size)}


def both():
    return {"input_ids": words(2, 12, 100), "decoder_input_ids": words(2, 5, 100)}


def waves():
    return {"input_values": torch.randn(2, 1000)}


CONVOLUTIONS = dict(conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, apply_spec_augment=False)
T5 = dict(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)

NETS = {
    "bert": lambda: net("BertModel", text, **SMALL),
    "bert_masked_words": lambda: net("BertForMaskedLM", text, **SMALL),
    "roberta": lambda: net("RobertaModel", text, **SMALL),
    "electra": lambda: net("ElectraModel", text, embedding_size=16, **SMALL),
    "albert": lambda: net("AlbertModel", text, embedding_size=16, **SMALL),
    "mpnet": lambda: net("MPNetModel", text, **SMALL),
    "deberta": lambda: net("DebertaV2Model", text, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], **SMALL),
    "modernbert": lambda: net("ModernBertModel", text, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, **SMALL),
    "distilbert": lambda: net("DistilBertModel", text, vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64),
    "funnel": lambda: net("FunnelBaseModel", text, vocab_size=100, d_model=32, n_head=4, d_head=8, d_inner=64, block_sizes=[1, 1]),
    "fnet": lambda: net("FNetModel", alone, **{k: v for k, v in SMALL.items() if k != "num_attention_heads"}),
    "gpt2": lambda: net("GPT2LMHeadModel", alone, vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "gpt2_masked": lambda: net("GPT2LMHeadModel", text, vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "gpt_neox": lambda: net("GPTNeoXForCausalLM", text, **SMALL),
    "opt": lambda: net("OPTForCausalLM", text, vocab_size=100, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32),
    "bloom": lambda: net("BloomForCausalLM", text, vocab_size=100, hidden_size=32, n_layer=2, n_head=4),
    "llama": lambda: net("LlamaForCausalLM", text, num_key_value_heads=2, **SMALL),
    "mistral": lambda: net("MistralForCausalLM", text, num_key_value_heads=2, sliding_window=6, **SMALL),
    "qwen2": lambda: net("Qwen2ForCausalLM", text, num_key_value_heads=2, **SMALL),
    "qwen3": lambda: net("Qwen3ForCausalLM", text, num_key_value_heads=2, head_dim=8, **SMALL),
    "gemma2": lambda: net("Gemma2ForCausalLM", text, num_key_value_heads=2, head_dim=8, pad_token_id=0, **SMALL),
    "phi": lambda: net("PhiForCausalLM", text, **SMALL),
    "falcon": lambda: net("FalconForCausalLM", text, vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "mixtral": lambda: net("MixtralForCausalLM", text, num_key_value_heads=2, num_local_experts=4, **SMALL),
    "mamba": lambda: net("MambaForCausalLM", alone, vocab_size=100, hidden_size=32, state_size=8, num_hidden_layers=2),
    "t5_encoder": lambda: net("T5EncoderModel", text, **T5),
    "t5": lambda: net("T5Model", both, **T5),
    "bart": lambda: net("BartModel", both, vocab_size=100, max_position_embeddings=64, **LAYERS),
    "marian": lambda: net("MarianModel", both, vocab_size=100, max_position_embeddings=64, pad_token_id=0, **LAYERS),
    "wav2vec2": lambda: net("Wav2Vec2Model", waves, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, **CONVOLUTIONS),
    "hubert": lambda: net("HubertModel", waves, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, **CONVOLUTIONS),
    "whisper": lambda: net("WhisperModel", lambda: {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": words(2, 5, 100)}, vocab_size=100, num_mel_bins=16, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, **LAYERS),
    "vit": lambda: net("ViTModel", pixels(), **IMAGES),
    "deit": lambda: net("DeiTModel", pixels(), **IMAGES),
    "beit": lambda: net("BeitModel", pixels(), use_relative_position_bias=True, **IMAGES),
    "dinov2": lambda: net("Dinov2Model", pixels(), **IMAGES),
    "clip_vision": lambda: net("CLIPVisionModel", pixels(), **IMAGES),
    "clip_text": lambda: net("CLIPTextModel", text, eos_token_id=99, **SMALL),
    "swin": lambda: net("SwinModel", pixels(), image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "swinv2": lambda: net("Swinv2Model", pixels(), image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "segformer": lambda: net("SegformerModel", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]),
    "convnextv2": lambda: net("ConvNextV2Model", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
    "mobilevit": lambda: net("MobileViTModel", pixels(64), image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40], num_attention_heads=4),
    "yolos": lambda: net("YolosForObjectDetection", pixels(), **{**IMAGES, "image_size": [32, 32]}, num_detection_tokens=5),
}
