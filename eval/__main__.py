"""python3 -m eval list | get NAME: data sets by name (eval/data.py)."""
import sys

from eval.data import main

sys.exit(main(sys.argv[1:]))
