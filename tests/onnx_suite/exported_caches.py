"""Small transformers that generate, with past keys and values as inputs, and nets of several parts, for write_exports.py."""
import torch
from torch import nn

from exported_layers import words
from exported_transformers import CONVOLUTIONS, IMAGES, LAYERS, SMALL, T5, awake, mask, net, pixels, text

SHORT = dict(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64)


class Step(nn.Module):
    """One step of generation: logits and the keys and values of all words, from a word and those of the words before."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids, mask, *past):
        from transformers import DynamicCache

        pairs = [(past[i], past[i + 1]) for i in range(0, len(past), 2)]
        out = self.net(input_ids=ids, attention_mask=mask, past_key_values=DynamicCache(pairs), use_cache=True)
        cache = out.past_key_values
        return out.logits, *(v for layer in cache.layers for v in (layer.keys, layer.values))


class StepOfTwo(Step):
    """Step with the inputs by name, as torch.export wants them: two layers."""

    def forward(self, ids, mask, k0, v0, k1, v1):
        return super().forward(ids, mask, k0, v0, k1, v1)


def step(kind, heads=4, width=8, new=1, **options):
    """`new` words behind others. Attention as it is written out: torch.export cannot choose among its kernels."""

    def made():
        import transformers as t

        cls = getattr(t, kind)
        config = cls.config_class(**options)
        config._attn_implementation = "eager"

        def inputs(n, past):
            return words(n, new, 100), torch.ones(n, past + new, dtype=torch.int64), *(torch.randn(n, heads, past, width) for _ in range(4))

        return StepOfTwo(awake(cls(config))), inputs(2, 5), [inputs(3, 9)]

    return made


def half(kind, inputs, dtype, **options):
    """A net of 16-bit numbers."""

    def made():
        whole, given = net(kind, inputs, **options)
        return whole.to(dtype), tuple(v.to(dtype) if v.is_floating_point() else v for v in given)

    return made


class Part(nn.Module):
    """Named outputs of a net as a tuple."""

    def __init__(self, net, names, outputs):
        super().__init__()
        self.net, self.names, self.outputs = net, names, outputs

    def forward(self, a, b=None, c=None):
        given = {n: v for n, v in zip(self.names, (a, b, c))}
        out = self.net(**given)
        return tuple(getattr(out, o) for o in self.outputs)


def part(kind, inputs, *outputs, of=None, **options):
    def made():
        import transformers as t

        cls = getattr(t, kind)
        config = cls.config_class(**options)
        for c in (config, getattr(config, "text_config", None), getattr(config, "decoder", None)):
            if hasattr(c, "use_cache"):
                c.use_cache = False
        given = inputs()
        whole = awake(cls(config))
        return Part(getattr(whole, of)() if of else whole, list(given), outputs), tuple(given.values())

    return made


def mel():
    return {"input_features": torch.randn(2, 16, 40)}


def heard():
    return {"input_ids": words(2, 5, 100), "encoder_hidden_states": torch.randn(2, 20, 32)}


def asked():
    return {"input_ids": words(2, 5, 100), "encoder_hidden_states": torch.randn(2, 7, 32)}


def sights():
    return {"input_ids": words(2, 12, 100), "pixel_values": torch.randn(2, 3, 32, 32), "attention_mask": mask()}


WHISPER = dict(vocab_size=100, num_mel_bins=16, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, **LAYERS)
TWO = dict(text_config=dict(eos_token_id=99, **SMALL), vision_config=IMAGES, projection_dim=16)
GROUPED = dict(num_key_value_heads=2, **SMALL)
LISTENER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, **CONVOLUTIONS)


def resnet_backbone():
    import transformers as t

    return t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"])


NETS = {
    "gpt2_step": step("GPT2LMHeadModel", **SHORT),
    "llama_step": step("LlamaForCausalLM", heads=2, **GROUPED),
    "mistral_step": step("MistralForCausalLM", heads=2, sliding_window=None, **GROUPED),
    "qwen2_step": step("Qwen2ForCausalLM", heads=2, **GROUPED),
    "qwen3_step": step("Qwen3ForCausalLM", heads=2, head_dim=8, **GROUPED),
    "phi_step": step("PhiForCausalLM", **SMALL),
    "phi3_step": step("Phi3ForCausalLM", heads=2, pad_token_id=0, **GROUPED),
    "gemma_step": step("GemmaForCausalLM", heads=2, head_dim=8, pad_token_id=0, **GROUPED),
    "gpt_neox_step": step("GPTNeoXForCausalLM", **SMALL),
    "opt_step": step("OPTForCausalLM", vocab_size=100, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32),
    "stablelm_step": step("StableLmForCausalLM", heads=4, num_key_value_heads=4, **SMALL),
    "gpt2_steps": step("GPT2LMHeadModel", new=3, **SHORT),
    "llama_steps": step("LlamaForCausalLM", heads=2, new=3, **GROUPED),
    "qwen3_steps": step("Qwen3ForCausalLM", heads=2, head_dim=8, new=3, **GROUPED),
    "phi3": lambda: net("Phi3ForCausalLM", text, pad_token_id=0, **GROUPED),
    "gemma": lambda: net("GemmaForCausalLM", text, head_dim=8, pad_token_id=0, **GROUPED),
    "gemma3": lambda: net("Gemma3ForCausalLM", text, head_dim=8, pad_token_id=0, sliding_window=6, **GROUPED),
    "cohere": lambda: net("CohereForCausalLM", text, pad_token_id=0, **GROUPED),
    "granite": lambda: net("GraniteForCausalLM", text, pad_token_id=0, **GROUPED),
    "smollm3": lambda: net("SmolLM3ForCausalLM", text, pad_token_id=0, **GROUPED),
    "olmo2": lambda: net("Olmo2ForCausalLM", text, pad_token_id=0, **GROUPED),
    "gptj": lambda: net("GPTJForCausalLM", text, vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4),
    "gpt_neo": lambda: net("GPTNeoForCausalLM", text, vocab_size=100, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], max_position_embeddings=64, window_size=6),
    "qwen2_moe": lambda: net("Qwen2MoeForCausalLM", text, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16, **GROUPED),
    "mamba2": lambda: net("Mamba2ForCausalLM", lambda: {"input_ids": words(2, 12, 100)}, vocab_size=100, hidden_size=32, state_size=8, num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=1, chunk_size=4),
    "rwkv": lambda: net("RwkvForCausalLM", lambda: {"input_ids": words(2, 12, 100)}, vocab_size=100, hidden_size=32, num_hidden_layers=2, context_length=64),
    "xlnet": lambda: net("XLNetModel", text, vocab_size=100, d_model=32, n_layer=2, n_head=4, d_inner=64),
    "longformer": lambda: net("LongformerModel", lambda: {"input_ids": words(2, 16, 100)}, attention_window=[4, 4], pad_token_id=0, **SMALL),
    "squeezebert": lambda: net("SqueezeBertModel", text, embedding_size=32, **SMALL),
    "mobilebert": lambda: net("MobileBertModel", text, embedding_size=16, intra_bottleneck_size=16, **SMALL),
    "xlm_roberta": lambda: net("XLMRobertaModel", text, **SMALL),
    "camembert": lambda: net("CamembertForTokenClassification", text, **SMALL),
    "deberta_v1": lambda: net("DebertaModel", text, relative_attention=True, pos_att_type=["p2c", "c2p"], **SMALL),
    "convbert": lambda: net("ConvBertModel", text, embedding_size=16, **SMALL),
    "roformer": lambda: net("RoFormerModel", text, embedding_size=16, **SMALL),
    "nystromformer": lambda: net("NystromformerModel", text, num_landmarks=4, segment_means_seq_len=12, **SMALL),
    "bart_decoder": lambda: net("BartForConditionalGeneration", lambda: {"input_ids": words(2, 12, 100), "attention_mask": mask(), "decoder_input_ids": words(2, 5, 100)}, vocab_size=100, max_position_embeddings=64, **LAYERS),
    "t5_decoder": part("T5Model", asked, "last_hidden_state", of="get_decoder", **T5),
    "t5_generation": lambda: net("T5ForConditionalGeneration", lambda: {"input_ids": words(2, 12, 100), "attention_mask": mask(), "decoder_input_ids": words(2, 5, 100)}, **T5),
    "umt5": lambda: net("UMT5Model", lambda: {"input_ids": words(2, 12, 100), "attention_mask": mask(), "decoder_input_ids": words(2, 5, 100)}, **T5),
    "pegasus": lambda: net("PegasusModel", lambda: {"input_ids": words(2, 12, 100), "decoder_input_ids": words(2, 5, 100)}, vocab_size=100, max_position_embeddings=64, **LAYERS),
    "m2m100": lambda: net("M2M100Model", lambda: {"input_ids": words(2, 12, 100), "attention_mask": mask(), "decoder_input_ids": words(2, 5, 100)}, vocab_size=100, max_position_embeddings=64, **LAYERS),
    "whisper_encoder": part("WhisperModel", mel, "last_hidden_state", of="get_encoder", **WHISPER),
    "whisper_decoder": part("WhisperModel", heard, "last_hidden_state", of="get_decoder", **WHISPER),
    "wav2vec2_letters": lambda: net("Wav2Vec2ForCTC", lambda: {"input_values": torch.randn(2, 1000)}, vocab_size=30, **LISTENER),
    "wavlm": lambda: net("WavLMModel", lambda: {"input_values": torch.randn(2, 1000)}, num_buckets=16, max_bucket_distance=20, **LISTENER),
    "sew": lambda: net("SEWModel", lambda: {"input_values": torch.randn(2, 1000)}, squeeze_factor=2, **LISTENER),
    "audio_spectrogram": lambda: net("ASTModel", lambda: {"input_values": torch.randn(2, 64, 16)}, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=8, max_length=64, num_mel_bins=16, frequency_stride=8, time_stride=8),
    "clip": part("CLIPModel", sights, "logits_per_image", "text_embeds", "image_embeds", **TWO),
    "siglip": part("SiglipModel", sights, "logits_per_image", "text_embeds", "image_embeds", text_config=SMALL, vision_config=IMAGES),
    "vilt": lambda: net("ViltModel", lambda: {"input_ids": words(2, 12, 100), "attention_mask": mask(), "token_type_ids": words(2, 12, 2), "pixel_values": torch.randn(2, 3, 32, 32)}, max_image_length=-1, **{**IMAGES, **SMALL}),
    "conditional_detr": part("ConditionalDetrForObjectDetection", pixels(64), "logits", "pred_boxes", use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=resnet_backbone(), num_queries=6, **LAYERS),
    "detr": part("DetrForObjectDetection", pixels(64), "logits", "pred_boxes", use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=resnet_backbone(), num_queries=6, **LAYERS),
    "mask_segformer": lambda: net("SegformerForSemanticSegmentation", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
    "upernet": lambda: net("UperNetForSemanticSegmentation", pixels(64), hidden_size=16, pool_scales=[1, 2], auxiliary_channels=8, auxiliary_in_channels=16, backbone_config=feature_backbone()),
    "depth_anything": lambda: net("DPTForDepthEstimation", pixels(), is_hybrid=False, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, backbone_out_indices=[0, 1, 2, 3], **{**IMAGES, "num_hidden_layers": 4}),
    "glpn": lambda: net("GLPNForDepthEstimation", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
    "mobilevit2": lambda: net("MobileViTV2Model", pixels(64), image_size=64, width_multiplier=0.5),
    "mobilevit_classes": lambda: net("MobileViTForImageClassification", pixels(64), image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40], num_attention_heads=4),
    "levit": lambda: net("LevitModel", pixels(64), image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]),
    "cvt": lambda: net("CvtModel", pixels(64), embed_dim=[8, 16, 32], num_heads=[1, 2, 2], depth=[1, 1, 2]),
    "pvt": lambda: net("PvtModel", pixels(64), image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]),
    "pvt2": lambda: net("PvtV2Model", pixels(64), image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]),
    "poolformer": lambda: net("PoolFormerModel", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "focalnet": lambda: net("FocalNetModel", pixels(32), image_size=32, embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3]),
    "efficientnet": lambda: net("EfficientNetModel", pixels(64), width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    "vit_msn": lambda: net("ViTMSNModel", pixels(), **IMAGES),
    "data2vec_vision": lambda: net("Data2VecVisionModel", pixels(), use_relative_position_bias=True, **IMAGES),
    "dinov2_registers": lambda: net("Dinov2WithRegistersModel", pixels(), **IMAGES),
    "hiera": lambda: net("HieraModel", pixels(64), image_size=[64, 64], embed_dim=16, num_heads=[1, 2], depths=[1, 1], patch_stride=[4, 4], query_stride=[2, 2], masked_unit_size=[8, 8], num_query_pool=1),
    "regnet": lambda: net("RegNetModel", pixels(64), embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], groups_width=4),
    "bit": lambda: net("BitModel", pixels(64), embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], num_groups=4),
    "videomae": lambda: net("VideoMAEModel", lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, num_frames=4, **IMAGES),
    "timesformer": lambda: net("TimesformerModel", lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, num_frames=4, **IMAGES),
    "vivit": lambda: net("VivitModel", lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, num_frames=4, tubelet_size=[2, 8, 8], **{k: v for k, v in IMAGES.items() if k != "patch_size"}),
    "time_series": lambda: net("PatchTSTModel", lambda: {"past_values": torch.randn(2, 32, 3)}, num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, scaling=None, mask_input=False),
    "vits_like": lambda: net("UnivNetModel", lambda: {"input_features": torch.randn(1, 12, 8), "noise_sequence": torch.randn(1, 12, 8)}, model_in_channels=8, model_hidden_channels=8, num_mel_bins=8, kernel_predictor_hidden_channels=8),
    "hifigan": lambda: net("SpeechT5HifiGan", lambda: {"spectrogram": torch.randn(12, 8)}, model_in_dim=8, upsample_initial_channel=32, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4]),
    "gpt2_half": half("GPT2LMHeadModel", text, torch.float16, **SHORT),
    "bert_half": half("BertModel", text, torch.float16, **SMALL),
    "llama_half": half("LlamaForCausalLM", text, torch.float16, **GROUPED),
    "llama_bfloat": half("LlamaForCausalLM", text, torch.bfloat16, **GROUPED),
    "qwen2_bfloat": half("Qwen2ForCausalLM", text, torch.bfloat16, **GROUPED),
    "vit_half": half("ViTModel", pixels(), torch.float16, **IMAGES),
    "vit_bfloat": half("ViTModel", pixels(), torch.bfloat16, **IMAGES),
    "t5_half": half("T5EncoderModel", text, torch.float16, **T5),
    "encodec": lambda: (EncodecRound(), (torch.randn(1, 1, 640),)),
}


def feature_backbone():
    import transformers as t

    return t.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"])


class EncodecRound(nn.Module):
    """A codec of sound, without its codes."""

    def __init__(self):
        super().__init__()
        import transformers as t

        net = t.EncodecModel(t.EncodecConfig(hidden_size=16, num_filters=4, upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_dim=16))
        self.encoder, self.decoder = net.encoder, net.decoder

    def forward(self, x):
        return self.decoder(self.encoder(x))
