"""Names that the front end gives to what the later stages look for in the IR."""

# The section, with a number behind it, of a threadgroup variable that has its value before the threads start.
INITIAL = "mc.initial"
