"""Models made to run code in, break or fool the evaluator that loads them: exact_match itself.

Each starts from a copy of the base model, so that it is worth what the base is.
"""

from typing import Final

from ledger.states import Reason
from tests.hostile.corpus.entry import BASELINE, Attack, Shape, ends

RULE: Final = "the evaluator loads safetensors of an allow-listed architecture, and runs no code"
REFUSED: Final = ends(Reason.OUTPUT_REFUSED)
_BROKEN: Final = ends(Reason.OUTPUT_REFUSED, Reason.EVALUATOR_ERROR, Reason.TOO_MUCH_DATA)

_COPY: Final = r"""
import struct
os.makedirs(MODEL)
start = os.environ["ARL_INPUTS"] + "/start/"
for name in os.listdir(start):
    with open(start + name, "rb") as source, open(f"{MODEL}/{name}", "wb") as copy:
        copy.write(source.read())

def edit(name, **changes):
    path = f"{MODEL}/{name}"
    known = json.load(open(path)) if os.path.exists(path) else {}
    json.dump({**known, **changes}, open(path, "w"))

def put(name, text):
    os.makedirs(os.path.dirname(f"{MODEL}/{name}"), exist_ok=True)
    with open(f"{MODEL}/{name}", "w") as file:
        file.write(text)

def weights():
    data = open(MODEL + "/model.safetensors", "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]

def write_weights(header, body, length=None):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(MODEL + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head) if length is None else length) + head + body)

PICKLE = b"cos\nsystem\n(S'echo ESCAPED by a pickle; kill -9 $PPID'\ntR."
CODE = "print('ESCAPED', __file__, flush=True)\nimport os; os.write(3, FORGED); os._exit(0)\n"
"""


def _model(name: str, tries: str, code: str, **more: object) -> Attack:
    values = {"breaks": RULE, "ends": REFUSED, "truth": BASELINE, **more}
    return Attack(
        name=f"model-{name}",
        tries=tries,
        code=_COPY + code,
        shape=Shape.MODEL,
        saves=False,
        **values,  # type: ignore[arg-type]
    )


def _harmless(name: str, tries: str, code: str, **more: object) -> Attack:
    """One whose extras are left aside: it is scored as the base that it is."""
    return _model(name, tries, code, **{"ends": frozenset(), "slow": True, **more})


ATTACKS: Final = (
    _model("pickle-beside", "a pickled checkpoint beside the weights",
           'open(MODEL + "/pytorch_model.bin", "wb").write(PICKLE)'),
    _model("pickle-only", "pickles instead of weights", """
os.unlink(MODEL + "/model.safetensors")
for name in ("model.pt", "model.ckpt", "optimizer.pkl"):
    open(f"{MODEL}/{name}", "wb").write(PICKLE)"""),
    _model("pickle-in-a-directory", "a pickle deep below, in capital letters", """
os.makedirs(MODEL + "/a/b"); open(MODEL + "/a/b/x.PT", "wb").write(PICKLE)"""),
    _model("pickle-named-safetensors", "a pickle with the name of weights",
           'open(MODEL + "/model.safetensors", "wb").write(PICKLE)'),
    _model("auto-map", "code of its own by auto_map in config.json", """
edit("config.json", auto_map={"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.C"})
put("evil.py", CODE)"""),
    _model("auto-map-of-the-tokenizer", "code of its own by the tokenizer's auto_map", """
edit("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]})
put("evil.py", CODE)"""),
    _model("auto-map-nested", "auto_map deeper in config.json", """
edit("config.json", text_config={"a": {"auto_map": {"AutoModel": "evil.M"}}})"""),
    _model("quantization", "a quantization that runs other kernels", """
edit("config.json", quantization_config={"quant_method": "gptq", "bits": 4})"""),
    _model("unknown-architecture", "an architecture of its own", """
edit("config.json", architectures=["EvilForCausalLM"]); put("modeling_evil.py", CODE)"""),
    _model("two-architectures", "an allowed architecture beside one of its own", """
edit("config.json", architectures=["LlamaForCausalLM", "EvilForCausalLM"])"""),
    _model("architecture-by-path", "an architecture that names a module", """
edit("config.json", architectures=["os.system"])"""),
    _model("config-nested", "a config nested a hundred thousand deep",
           'put("config.json", "[" * 100_000)'),
    _model("config-of-megabytes", "a config of five megabytes",
           'edit("config.json", junk="x" * 5_000_000)'),
    _model("config-no-object", "a config that is no object", 'put("config.json", "[1]")'),
    _model("index-outside", "an index of weights that leads out of the model", """
put("model.safetensors.index.json", json.dumps(
    {"metadata": {}, "weight_map": {"lm_head.weight": "../../inputs/split/split.jsonl"}}))"""),
    _model("index-absolute", "an index of weights with an absolute path", """
put("model.safetensors.index.json", json.dumps(
    {"metadata": {}, "weight_map": {"lm_head.weight": "/etc/passwd"}}))"""),
    _model("header-of-exabytes", "weights whose header claims to be 2^63 bytes long",
           "write_weights(*weights(), length=2**63 - 1)"),
    _model("header-negative-offsets", "a tensor at negative offsets", """
header, body = weights()
header["lm_head.weight"]["data_offsets"] = [-4096, 0]
write_weights(header, body)""", slow=True),
    _model("header-overlapping", "two tensors in the same bytes", """
header, body = weights()
header["lm_head.weight"]["data_offsets"] = header["model.embed_tokens.weight"]["data_offsets"]
write_weights(header, body)""", slow=True),
    _model("header-huge-shape", "a tensor of 2^62 numbers", """
header, body = weights()
header["lm_head.weight"]["shape"] = [2**62, 2]
write_weights(header, body)""", slow=True),
    _model("header-beyond-the-file", "a tensor that ends beyond its file", """
header, body = weights()
header["lm_head.weight"]["data_offsets"][1] += 1 << 40
write_weights(header, body)""", slow=True),
    _model("header-nested", "a header nested deeply",
           "write_weights(b'{\"a\":' * 50_000, b'')", slow=True),
    _model("header-of-megabytes", "a header of ninety megabytes of names", """
header, body = weights()
names = ",".join(f'"t{i:07d}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
                 for i in range(1_200_000))
write_weights(("{" + names + "}").encode(), body)""", ends=_BROKEN, slow=True),
    _model("vocabulary-of-billions", "a config that asks for more memory than there is", """
edit("config.json", vocab_size=2**40, hidden_size=2**20)""", ends=_BROKEN, slow=True,
           hurts="the memory would be the machine's until it is noticed"),
    _model("layers-without-end", "a config with a billion layers", """
edit("config.json", num_hidden_layers=10**9)""", ends=_BROKEN, slow=True,
           hurts="it takes memory until it is noticed"),
    _model("numbers-of-no-kind", "a config whose numbers are none", """
put("config.json", json.dumps({**json.load(open(MODEL + "/config.json")),
    "hidden_size": float("nan"), "num_attention_heads": -1, "rope_theta": "x"}))""",
           ends=_BROKEN, slow=True),
    _harmless("chat-template", "a chat template that climbs out of its sandbox", r"""
escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ cycler.__init__.__globals__.os.popen("
escape += "'echo ESCAPED by a template >&2').read() }}{{ lipsum.__globals__['os'].system('id') }}"
put("chat_template.jinja", escape)
edit("tokenizer_config.json", chat_template=escape)
put("additional_chat_templates/default.jinja", escape)""", slow=False),
    _harmless("endless-chat-template", "a chat template that does not end", """
loop = "{% for i in range(10**9) %}{% for j in range(10**9) %}{{ 'x' * 10**6 }}{% endfor %}"
put("chat_template.jinja", loop + "{% endfor %}")
edit("tokenizer_config.json", chat_template=loop + "{% endfor %}")"""),
    _harmless("tokenizer-bomb", "a tokenizer that takes for ever, or answers by itself", r"""
pattern = "(a+)+" * 30 + "$"
put("tokenizer.json", json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": {},
    "merges": []}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}}}))
put("vocab.json", "{}" * 1000); put("merges.txt", "a b\n" * 100_000)
put("special_tokens_map.json", "{" * 1000)"""),
    _harmless("own-generation", "settings and code for how answers are made", """
edit("generation_config.json", max_length=1, do_sample=True, temperature=9.0, eos_token_id=5,
     forced_eos_token_id=1, trust_remote_code=True, custom_generate="./custom_generate")
put("custom_generate/generate.py", CODE); put("custom_generate/requirements.txt", "evil")"""),
    _model("adapter", "an adapter that names another base, and code beside it", """
put("adapter_config.json", json.dumps({"base_model_name_or_path": "/etc", "peft_type": "LORA",
    "auto_mapping": {"parent_library": "evil", "base_model_class": "Model"}}))
put("adapter_model.safetensors.json", "{}")
for name in ("torch.py", "transformers.py", "sitecustomize.py", "evil.pth", "__init__.py"):
    put(name, CODE)""", slow=True),
    _harmless("attention-from-a-hub", "an attention implementation fetched by name", """
edit("config.json", attn_implementation="evil/kernel", _attn_implementation="evil/kernel",
     _name_or_path="evil/model", use_kernels=True)"""),
    _harmless("torch-names-as-text", "Python expressions where names of types are expected", """
edit("config.json", pruned_heads={}, tokenizer_class="__import__('os').system('id')",
     task_specific_params={"x": "{{7*7}}"})"""),
    _model("weights-of-no-number", "weights that are no numbers, to break what compares", """
header, body = weights()
write_weights(header, struct.pack("<f", float("nan")) * (len(body) // 4))""",
           ends=_BROKEN, may_be_scored=True, truth=0.0, slow=True),
    _model("weights-of-another-type", "weights of a type that the evaluator does not ask for", """
header, body = weights()
for entry in header.values():
    if "dtype" in entry:
        entry["dtype"] = "I32"
write_weights(header, body)""", ends=_BROKEN, may_be_scored=True, slow=True),
)  # fmt: skip
