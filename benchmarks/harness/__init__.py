"""What the benchmarks share: peers in C++, rows, interleaved timing, reports."""
