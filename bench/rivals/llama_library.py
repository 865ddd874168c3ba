"""llama.cpp by its C functions, out of any shared library that has them.

That is `libllama.so` of a build on this machine, the library of llama-cpp-python, or the module of the wheel
`xllamacpp` (which needs no build, but uses no instructions beyond NEON or AVX2).
"""

import ctypes
import glob
import importlib.util
import os

BATCH = 512  # rows of a decode call
KV_TYPES = {"f32": 0, "f16": 1, "q8": 8}  # numbers of ggml's types, by our names


def find_library() -> str:
    """The library of llama-cpp-python or xllamacpp, whichever is installed."""
    for package, pattern in (("llama_cpp", "lib/libllama.so"), ("xllamacpp", "xllamacpp.*.so")):
        spec = importlib.util.find_spec(package)
        found = glob.glob(os.path.join(spec.submodule_search_locations[0], pattern)) if spec else []
        if found:
            return found[0]
    raise SystemExit("expected llama_cpp or xllamacpp to be installed, or a library by --library")


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


class Parameters(ctypes.Structure):
    """A structure of options, whose fields move from version to version: they are found by their default values."""

    _fields_ = [("bytes", ctypes.c_uint8 * 512)]

    def words(self) -> list[int]:
        return list(ctypes.cast(self.bytes, ctypes.POINTER(ctypes.c_int32))[:64])

    def set_word(self, index: int, value: int) -> None:
        ctypes.cast(self.bytes, ctypes.POINTER(ctypes.c_int32))[index] = value


def context_options(options: Parameters, threads: int, cells: int, sequences: int, kv_type: str) -> None:
    words = options.words()
    if words[:4] != [512, 2048, 512, 1]:
        raise SystemExit(f"llama_context_params begins with {words[:4]}: expected 512, 2048, 512, 1")
    at = next(i for i in range(4, 16) if words[i : i + 2] == [4, 4])  # n_threads, n_threads_batch
    for index, value in ((0, cells), (1, BATCH), (2, BATCH), (3, sequences), (at, threads), (at + 1, threads)):
        options.set_word(index, value)
    for index in range(4, at):  # outputs of a call for each sequence, where the version limits them
        if words[index] == 1:
            options.set_word(index, 0)
    types = next(i for i in range(at + 2, 40) if words[i : i + 2] == [1, 1])  # keys and values in f16
    flags = bytes(options.bytes)[4 * types + 8 : 4 * types + 64].find(bytes([0, 1, 1, 1, 1, 0]))
    if flags < 0:
        raise SystemExit("llama_context_params has no kv_unified where it is expected")
    options.bytes[4 * types + 8 + flags + 5] = 1  # kv_unified: sequences share the cells of a prefix
    options.set_word(types, KV_TYPES[kv_type])
    options.set_word(types + 1, KV_TYPES[kv_type])


class Llama:
    """One model and one context."""

    def __init__(self, library: str, path: str, threads: int, cells: int, sequences: int, kv_type: str = "f16"):
        c = self.c = ctypes.CDLL(library)
        c.llama_model_default_params.restype = c.llama_context_default_params.restype = Parameters
        c.llama_batch_init.restype = Batch
        c.llama_batch_free.argtypes = [Batch]
        c.llama_decode.argtypes = [ctypes.c_void_p, Batch]
        for name in (
            "llama_model_load_from_file",
            "llama_init_from_model",
            "llama_get_memory",
            "llama_model_get_vocab",
        ):
            getattr(c, name).restype = ctypes.c_void_p
        c.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
        c.llama_print_system_info.restype = ctypes.c_char_p
        self.silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        c.llama_log_set(self.silent, None)  # the library keeps the pointer
        c.llama_backend_init()
        self.model = ctypes.c_void_p(c.llama_model_load_from_file(path.encode(), c.llama_model_default_params()))
        options = c.llama_context_default_params()
        context_options(options, threads, cells, sequences, kv_type)
        self.context = ctypes.c_void_p(c.llama_init_from_model(self.model, options) if self.model else None)
        if not self.context:
            raise SystemExit(f"llama.cpp did not load {path}")
        self.memory = ctypes.c_void_p(c.llama_get_memory(self.context))
        self.tokens = c.llama_vocab_n_tokens(ctypes.c_void_p(c.llama_model_get_vocab(self.model)))
        self.batch = c.llama_batch_init(BATCH, 0, 1)

    def close(self) -> None:
        """Gives its memory back."""
        self.c.llama_batch_free(self.batch)
        self.c.llama_free(self.context)
        self.c.llama_model_free(self.model)

    def instructions(self) -> str:
        """What it was built to use."""
        return self.c.llama_print_system_info().decode().strip(" |")

    def clear(self) -> None:
        self.c.llama_memory_clear(self.memory, True)

    def share(self, source: int, target: int) -> None:
        """All cells of a sequence belong to another one too."""
        self.c.llama_memory_seq_cp(self.memory, source, target, -1, -1)

    def forget(self, sequence: int, position: int = -1) -> None:
        """The sequence's cells from a position on, or all."""
        self.c.llama_memory_seq_rm(self.memory, sequence, position, -1)

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """rows: (token, position, sequence, whether its logits are wanted), BATCH of them at most."""
        for i, (token, position, sequence, wanted) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = wanted
        self.batch.n_tokens = len(rows)
        status = self.c.llama_decode(self.context, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")
        self.c.llama_synchronize(self.context)

    def feed(self, rows: list[tuple[int, int, int, bool]]) -> dict[int, int]:
        """Decodes any number of rows; the best next token of each sequence whose logits were wanted."""
        best = {}
        for begin in range(0, len(rows), BATCH):
            part = rows[begin : begin + BATCH]
            self.decode(part)
            for i, (_, _, sequence, wanted) in enumerate(part):
                if wanted:
                    best[sequence] = self.best(i)
        return best

    def logits(self, row: int) -> "numpy.ndarray":
        """Of a row of the last call, in the library's memory: valid until the next one."""
        import numpy

        return numpy.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, row), (self.tokens,))

    def best(self, row: int) -> int:
        return int(self.logits(row).argmax())

    def prompt(self, tokens: list[int], sequence: int = 0) -> None:
        """Computes a prompt without logits but the last row's."""
        for begin in range(0, len(tokens), BATCH):
            part = tokens[begin : begin + BATCH]
            last = begin + len(part) == len(tokens)
            self.decode([(t, begin + i, sequence, last and i + 1 == len(part)) for i, t in enumerate(part)])

    def prompt_logits(self, tokens: list[int], sequence: int = 0) -> "numpy.ndarray":
        """The logits after a prompt; a copy."""
        self.prompt(tokens, sequence)
        return self.logits((len(tokens) - 1) % BATCH).copy()
