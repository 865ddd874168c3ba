"""Makes Banyan's small model: text generator, tokenizer, trainer, exporters. Nothing here is needed to build the
engine."""
