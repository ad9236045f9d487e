import metalcore.torch.register  # noqa: F401  (defines torch.ops.metalcore, whichever test runs first)
