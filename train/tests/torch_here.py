"""`torch`, if there is one that training can use: 2.9 or newer (`train/README.md`); otherwise None."""

try:
    import torch

    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 9):
        torch = None
except ImportError:
    torch = None
