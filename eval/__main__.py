"""`python3 -m eval list|get`: data sets by name (eval.data); `python3 -m eval ask|extract|rag`: evaluations of one form
(eval.form); `python3 -m eval rag-tables`: ways of `rag` over many documents (eval.rag_tables)."""

import sys

from eval import data, form, rag_tables

if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["rag-tables"]:
        sys.exit(rag_tables.main(words[1:]))
    sys.exit(form.main(words[0], words[1:]) if words and words[0] in form.KINDS else data.main(words))
