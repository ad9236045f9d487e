"""`metalcore health`: every op on every dtype and runtime that is there, on fuzzed shapes, against float64."""
