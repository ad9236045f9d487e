"""Random Metal kernels, run by the engine and by a plain interpreter of the generator's own syntax tree."""
