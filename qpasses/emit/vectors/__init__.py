"""Test vectors: an integer model, samples, and what every node makes of them, as files."""
