"""Writes the folder `tiny`: a language model with random weights, as optimum exports it, for tests.

    python models/tiny.py

It needs what `requirements.txt` lists. A token is a byte, or a special one.
"""

import json
import tempfile
from pathlib import Path

import torch
from optimum.exporters.openvino import main_export
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).parent / "tiny"
SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = """\
{% for message in messages %}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{%- endif %}
"""

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE({letter: token for token, letter in enumerate(alphabet)}, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
end = tokenizer.token_to_id(SPECIAL[1])

torch.manual_seed(5)
config = LlamaConfig(
    vocab_size=tokenizer.get_vocab_size(),
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    initializer_range=0.3,
    bos_token_id=None,
    eos_token_id=end,
    tie_word_embeddings=False,
)
with tempfile.TemporaryDirectory() as folder:
    LlamaForCausalLM(config).half().save_pretrained(folder)
    main_export(folder, FOLDER, task="text-generation-with-past", library_name="transformers", convert_tokenizer=False)
for file in FOLDER.iterdir():
    if file.name not in ["openvino_model.xml", "openvino_model.bin", "config.json", "generation_config.json"]:
        file.unlink()
tokenizer.save(str(FOLDER / "tokenizer.json"))
(FOLDER / "chat_template.jinja").write_text(TEMPLATE)
(FOLDER / "tokenizer_config.json").write_text(json.dumps({"eos_token": SPECIAL[1]}) + "\n")
