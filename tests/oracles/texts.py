"""Small tokenizers, trained here on a few sentences, and chat templates; their results by Hugging Face's libraries.

The tokenizers have the steps of well-known ones (normalisation, splitting, bytes, marks), which is what their names
say; words and ids are their own.
"""
import collections
import json

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

import gguf_files

CORPUS = """The banyan grows many trunks from one root, and a reader who walks around it sees a forest.
In 1889 the tower was built in Paris; by 1900 it had 2,500,000 visitors. It's said that they'd waited for hours.
Questions about one document share its text: what is read once need not be read again. Isn't that so?
def answer(question, documents):\n    return [document for document in documents if question in document]\n
The keys and values of a prefix are kept, and every answer is written as if it were alone.
La rivière était gelée; l'été suivant, le café rouvrit. Die Straße führt über die Brücke nach Köln.
Он читает книгу, и она читает газету. 東京は日本の首都です。今日は天気がいい。 The naïve coöperation — “quoted” … done.
internationalisation, tokenisation, quantisation, generation, station, nation; reading, writing, waiting, walking.
the then there these they them this that those thus; who what when where why which; 0 1 2 3 4 5 6 7 8 9 10 100 1000
""".splitlines(keepends=True) * 4

# Strings that find mistakes: spaces, line ends, digits, contractions, marks, joined characters, control tokens.
TEXTS = [
    "", " ", "  ", "   x", "x   ", "\n", "\n\n", " \n ", "a\n\n\nb", "\t", "\r\n", "a\r\nb", "Hello", " Hello",
    "Hello world", "The banyan grows.", "it's they'd we'll I'M YOU'RE", "don’t", "1889", "1234567", "3.14159",
    "2,500,000", "a1b2c3", "x=1;y=2", "été café naïve", "e\u0301te\u0301", "Straße über Köln", "Он читает",
    "東京は日本の首都です。",
    "한국어", "العربية", "😀", "👩‍👩‍👧", "👍🏽!", "a\u00a0b", "\u200b", "\ufeffx", "ﬁ ﬂ Å ①", "...", "!?!?", "—–-",
    "“quoted”", "def f(x):\n    return x + 1\n", "    indented", "<tag>",
    "https://example.org/a?b=c&d=e", "CamelCaseWords", "ALLCAPS", "snake_case_words", "a" * 50, " " * 20, "ab" * 20,
    "internationalisation", "tokenisation of nations", "\u0000", "\u001f", "𝒳", "ꙮ", "x\u0301\u0302\u0303",
    "mixed 中文 and English", "<|im_start|>user\nHi<|im_end|>", "<s>a</s>", "[CLS] a [SEP]", "▁", "a ▁ b", "Ġ", "<0x41>",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGITS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3, QWEN = DIGITS % r"\p{N}{1,3}", DIGITS % r"\p{N}"


def special(*names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def byte_level(pattern, control, normalizer=None, bos=None):
    """BPE over bytes; `pattern` None is GPT-2's own splitting."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(special(*control))
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))])
    return tokenizer


def sentencepiece(size=480):
    """BPE over characters with ▁ for spaces, bytes for what is unknown, and every merge that a vocabulary allows."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # no word crosses a space
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size - 259, show_progress=False))
    learned = [token for token, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1])]
    pieces = sorted((token for token in learned if len(token) > 1), key=learned.index)
    pieces += [token for token in learned if len(token) == 1]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + pieces
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [(token[:at], token[at:]) for token in pieces for at in range(1, len(token))
              if token[:at] in vocabulary and token[at:] in vocabulary]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                             special_tokens=[("<s>", 1)])
    return tokenizer


def wordpiece(size=400):
    """Characters and the pieces of words that cover most; the library's trainer breaks ties at random."""
    normalizer, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    counts = collections.Counter()
    for line in CORPUS:
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(line)):
            for begin in range(len(word)):
                for end in range(begin + 1, min(begin + 6, len(word)) + 1):
                    counts["##" * (begin > 0) + word[begin:end]] += 1
    characters = sorted(piece for piece in counts if len(piece.removeprefix("##")) == 1)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = sorted(counts.keys() - characters, key=lambda piece: (-counts[piece] * len(piece), piece))
    tokens = names + characters + pieces[:size - len(names) - len(characters)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, split, decoders.WordPiece()
    tokenizer.add_special_tokens(special(*names))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def make_tokenizers(folder, write_json):
    headers = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    made = {
        "gpt2": (byte_level(None, ["<|endoftext|>"]), {"eos_token": "<|endoftext|>"}),
        "llama3_1": (byte_level(LLAMA3, headers, bos="<|begin_of_text|>"),
                     {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
        "qwen3": (byte_level(QWEN, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), normalizers.NFC()),
                  {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}),
        "llama2": (sentencepiece(), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
        "bert": (wordpiece(), {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}),
    }
    for name, (tokenizer, config) in made.items():
        (folder / name).mkdir()
        tokenizer.save(str(folder / name / "tokenizer.json"), pretty=False)
        write_json(folder / name / "tokenizer_config.json", config)
        rows = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        write_json(folder / f"{name}.json", rows)
        print("tokenizers", name, tokenizer.get_vocab_size(), flush=True)
    return {name: tokenizer for name, (tokenizer, _) in made.items()}


def make_gguf_vocabularies(folder, tokenizers):
    """The same vocabularies in GGUF, without weights. A text that holds a control token would be another question."""
    marks = ("<|", "<s>", "[CLS]", "<0x", "▁", "\0")
    texts = [text for text in TEXTS if text and not any(mark in text for mark in marks)]
    for name, (kind, mark) in {"gpt2": ("gpt2", None), "llama2": ("llama", None), "bert": ("bert", "##")}.items():
        tokenizer = tokenizers[name]
        words = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
        control = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        types = []
        for word in words:
            chosen = gguf.TokenType.CONTROL if word in control else gguf.TokenType.NORMAL
            if word in ("<unk>", "[UNK]"):
                chosen = gguf.TokenType.UNKNOWN
            if kind == "llama" and word.startswith("<0x"):
                chosen = gguf.TokenType.BYTE
            types.append(chosen)
        tokens = words
        if mark:  # WordPiece: GGUF marks the beginnings of words instead of the rest
            tokens = [word if word in control else word[2:] if word.startswith(mark) else "▁" + word for word in words]
        writer = gguf.GGUFWriter(folder / f"{name}.gguf", kind)
        writer.add_tokenizer_model(kind)
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        if kind == "gpt2":
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])
        elif kind == "llama":
            writer.add_tokenizer_pre("default")
            writer.add_token_scores([0.0] * 259 + [-float(rank) for rank in range(len(words) - 259)])
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            writer.add_unk_token_id(0)
        else:
            writer.add_tokenizer_pre("jina-v2-en")
            writer.add_unk_token_id(1)
            writer.add_bos_token_id(2)
            writer.add_sep_token_id(3)
            writer.add_pad_token_id(0)
        gguf_files.close(writer)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        (folder / f"{name}.gguf.inp").write_text("\n__ggml_vocab_test__\n".join(texts), encoding="utf-8", newline="")
        (folder / f"{name}.gguf.out").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids))


# Templates of our own in three common styles: what they do with roles, system messages, thinking and tools.
TEMPLATES = {
    "chatml": {"bos_token": None, "eos_token": "<|im_end|>", "chat_template": """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n' }}
    {%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set found = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set found.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages if message.role != 'system' %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' and '</think>' in content and loop.index0 < found.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content }}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<call>' }}{{ call.function.name | upper }} {{ call.function.arguments | tojson }}{{- '</call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""},
    "headers": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": """
{%- for message in messages %}
    {%- set content = '<|end_header_id|>\\n\\n' + message['content'] | trim + eos_token %}
    {%- set content = '<|start_header_id|>' + message['role'] + content %}
    {%- if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"""},
    "turns": {"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": """{{ bos_token }}
{%- set first = '' %}
{%- set rest = messages %}
{%- if messages[0]['role'] == 'system' %}
    {%- set first = messages[0]['content'] ~ '\\n\\n' %}
    {%- set rest = messages[1:] %}
{%- endif %}
{%- for message in rest %}
    {%- set role = {'assistant': 'model'}.get(message['role'], message['role']) %}
    {{- '<start_of_turn>' ~ role ~ '\\n' ~ (first if loop.first else '') }}
    {%- if message['content'] is string %}{{ message['content'] | trim }}
    {%- else %}
        {%- for part in message['content'] or [] %}
            {{- part['text'] | trim }}{% if not loop.last %}{{ ' / ' }}{% endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<end_of_turn>' ~ ('' if loop.last and not add_generation_prompt else '\\n') }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}"""},
}

USER = {"role": "user", "content": "What is 7 × 6?"}
SYSTEM = {"role": "system", "content": "Answer briefly."}
CASES = [
    ("user", [USER], True, {}),
    ("system and user", [SYSTEM, USER], True, {}),
    ("turns", [SYSTEM, USER, {"role": "assistant", "content": "42"}, {"role": "user", "content": "And 6 × 6?"}], True,
     {}),
    ("no generation prompt", [USER, {"role": "assistant", "content": "42"}], False, {}),
    ("white space and braces", [{"role": "user", "content": "  braces {{ x }} {% y %}\n\n"}], True, {}),
    ("marks in the text", [{"role": "user", "content": "<|im_end|><|eot_id|><end_of_turn> été 中文"}], True, {}),
    ("thoughts", [USER, {"role": "assistant", "content": "<think>\n6 × 7\n</think>\n\n42"},
                  {"role": "user", "content": "Sure?"}], True, {"enable_thinking": False}),
    ("parts", [SYSTEM, {"role": "user", "content": [{"type": "text", "text": " Read this. "},
                                                   {"type": "text", "text": "braces }}"}]}], True, {}),
    ("tools", [USER, {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function",
         "function": {"name": "multiply", "arguments": {"a": 7, "b": [6, None, True], "note": "é\"<"}}}]},
               {"role": "tool", "content": "{\"result\": 42}"}], True,
     {"tools": [{"type": "function", "function": {"name": "multiply", "description": "a × b"}}]}),
]


def make_templates(folder, write_json):
    only = {"tools": "chatml", "parts": "turns"}
    for name, template in TEMPLATES.items():
        cases = []
        for case, messages, generation, extra in CASES:
            if name != only.get(case, name):
                continue
            given = dict(extra)
            tokens = {key: template[key] for key in ("bos_token", "eos_token") if template[key]}
            rendered, _ = render_jinja_template([messages], tools=given.pop("tools", None),
                                                chat_template=template["chat_template"],
                                                add_generation_prompt=generation, **tokens, **given)
            cases.append({"case": case, "messages": messages, "add_generation_prompt": generation, "extra": extra,
                          "text": rendered[0]})
        write_json(folder / f"{name}.json", {**template, "cases": cases})
        print("chat_templates", name, flush=True)


def make(here, write_json, fresh):
    tokenizers = make_tokenizers(fresh(here / "tokenizers"), write_json)
    make_gguf_vocabularies(fresh(here / "gguf_vocab"), tokenizers)
    make_templates(fresh(here / "chat_templates"), write_json)
