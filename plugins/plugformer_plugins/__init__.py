"""The built-in components: one package for each kind, from `architecture` and `attention` to `tokenizer`."""
