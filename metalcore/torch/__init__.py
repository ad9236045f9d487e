"""PyTorch: the ops under torch.ops.metalcore, their gradients, overrides, modules and optimizers."""
