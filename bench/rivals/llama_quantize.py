"""Files of other types out of one model, by llama.cpp's own quantiser:

    python3 -m bench.rivals.llama_quantize MODEL.gguf FOLDER --library libllama.so [--threads 2] [--layers 6] Q4_0 Q8_0
        Q6_K ...

Every matrix becomes the type, the embedding and the output too. Types in blocks of 256 columns need matrices with such
columns: of others llama.cpp takes a fallback (Q4_K of 576 columns becomes Q5_0). A quantised source is dequantised
first: such files compare engines on one file, and say nothing of the type's own loss.
"""

import argparse
import ctypes
import pathlib

from bench.rivals.llama_library import Parameters, find_library

FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K": 12,
    "Q4_K": 15,
    "Q5_K": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "IQ3_S": 26,
    "IQ4_XS": 30,
    "BF16": 32,
}
FLAGS = 16  # byte of llama_model_quantize_params: requantise, the output too, copy only, one type everywhere
PRUNE = 48  # byte: the address of layers to leave out, -1 after the last
MOST_LAYERS = 1024


def quantize(library: str, source: str, target: str, name: str, threads: int, layers: int) -> None:
    """layers: the first that are kept; 0: all."""
    c = ctypes.CDLL(library)
    c.llama_model_quantize_default_params.restype = Parameters
    c.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
    c.llama_model_quantize.restype = ctypes.c_uint32
    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    c.llama_log_set(silent, None)
    c.llama_backend_init()
    options = c.llama_model_quantize_default_params()
    if options.words()[2] != options.words()[3] or bytes(options.bytes[FLAGS : FLAGS + 4]) != bytes([0, 1, 0, 0]):
        raise SystemExit(
            f"llama_model_quantize_params begins with {options.words()[:5]}, which is not the expected form"
        )
    options.set_word(0, threads)
    options.set_word(1, FILE_TYPES[name])
    options.bytes[FLAGS] = options.bytes[FLAGS + 3] = 1
    if layers:
        left_out = (ctypes.c_int32 * MOST_LAYERS)(*range(layers, layers + MOST_LAYERS - 1), -1)
        ctypes.cast(ctypes.addressof(options) + PRUNE, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.addressof(left_out)
    if c.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(options)) != 0:
        raise SystemExit(f"llama.cpp did not make {target}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("types", nargs="+", choices=FILE_TYPES, metavar="TYPE", help=", ".join(FILE_TYPES))
    p.add_argument("--library", default="")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument(
        "--layers",
        type=int,
        default=0,
        help="only the first ones: a large model's weights in a file that is quick to run; 0: all",
    )
    a = p.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    for name in a.types:
        target = a.folder / f"{pathlib.Path(a.model).stem}.{name}.gguf"
        quantize(a.library or find_library(), a.model, str(target), name, a.threads, a.layers)
        print(f"{target}: {target.stat().st_size / 2 ** 20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
