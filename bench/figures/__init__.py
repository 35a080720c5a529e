"""The parts of the benchmark: what they share is in harness, data and plot, and each of the others is one of them."""
