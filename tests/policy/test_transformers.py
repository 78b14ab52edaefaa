"""Policies that need transformers, under our pins: built up to where weights would be loaded.

`make env EXTRAS="smolvla pi"` installs what these tests need; without it they are skipped.
"""

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason='needs make env EXTRAS="smolvla pi"')

STATE, CHUNK = 8, 5


def features(size: int) -> dict[str, dict]:
    from lerobot.configs import FeatureType, PolicyFeature

    image = PolicyFeature(FeatureType.VISUAL, (3, size, size))
    return {
        "input_features": {
            "observation.state": PolicyFeature(FeatureType.STATE, (STATE,)),
            "observation.images.camera1": image,
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (7,))},
    }


@pytest.mark.parametrize("family", ["pi0", "pi05"])
def test_pi_is_built_up_to_its_weights(family):
    """On the meta device: its billions of parameters take no memory."""
    import torch
    from lerobot.policies.factory import get_policy_class, make_policy_config

    config = make_policy_config(family, device="cpu", **features(224))
    config.device = "meta"
    with torch.device("meta"):
        policy = get_policy_class(family)(config)
    assert sum(one.numel() for one in policy.parameters()) > 2e9
    assert policy.config.type == family


@pytest.fixture
def tiny_vlm(tmp_path) -> Path:
    """A SmolVLM with random weights' config, and a processor whose tokenizer knows few words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import (
        PreTrainedTokenizerFast,
        SmolVLMConfig,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    special = ["<unk>", "<pad>", "<end_of_utterance>", "<image>", "<fake_token_around_image>"]
    special += ["<global-img>", "\n"]
    words = {word: number for number, word in enumerate([*special, "push", "the", "puck"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<pad>",
        extra_special_tokens={
            "end_of_utterance_token": "<end_of_utterance>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "image_token": "<image>",
        },
    )
    small = {"hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 3}
    text = {"num_hidden_layers": 2, "num_key_value_heads": 3, "head_dim": 16, "vocab_size": 64}
    config = SmolVLMConfig(
        text_config={"model_type": "llama", **small, **text},
        vision_config={**small, "num_hidden_layers": 1, "image_size": 64, "patch_size": 16},
        scale_factor=2,
        image_token_id=words["<image>"],
    )
    config.save_pretrained(tmp_path)
    SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(),
        tokenizer=fast,
        video_processor=SmolVLMVideoProcessor(),
    ).save_pretrained(tmp_path)
    return tmp_path


def test_a_tiny_smolvla_computes_a_chunk(tiny_vlm):
    import torch
    from lerobot.policies.factory import get_policy_class, make_policy_config
    from lerobot.utils.constants import OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS

    config = make_policy_config(
        "smolvla",
        device="cpu",
        vlm_model_name=str(tiny_vlm),
        load_vlm_weights=False,
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        num_steps=2,
        num_vlm_layers=2,
        resize_imgs_with_padding=(64, 64),
        **features(64),
    )
    policy = get_policy_class("smolvla")(config).eval()
    batch = {
        "observation.state": torch.zeros(1, STATE),
        "observation.images.camera1": torch.rand(1, 3, 64, 64),
        OBS_LANGUAGE_TOKENS: torch.tensor([[7, 8, 9]]),
        OBS_LANGUAGE_ATTENTION_MASK: torch.ones(1, 3, dtype=torch.bool),
    }
    chunk = policy.predict_action_chunk(batch)
    assert chunk.shape == (1, CHUNK, 7)
    assert torch.isfinite(chunk).all()
